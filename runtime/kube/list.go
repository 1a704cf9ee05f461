package kube

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// onePod and onePodName name one pod, which is requested to get the newest version. It need not
// exist.
const (
	onePod     = "/api/v1/namespaces/default/pods"
	onePodName = "ebb"
)

// newest returns the version of the newest state. It lists one pod by its name: the API server
// then reads one key of etcd, however many pods there are. A list that is not older than this
// version has every pod that existed when newest asked, and yet comes from the server's cache.
// Without such a bound (resourceVersion=0) the list could be of any age. newest returns "" if the
// server refuses the request.
func (f *follower) newest(ctx context.Context) (string, error) {
	q := f.query()
	q.Set("fieldSelector", "metadata.name="+onePodName+","+q.Get("fieldSelector"))
	version, err := f.readList(ctx, onePod, q, func(item) error { return nil })
	if refusedAsSuch(err) {
		return "", nil // if the client may not list at all, the list that follows shows it
	}
	if err != nil {
		return "", err
	}
	return version, f.believe(onePod, version)
}

// list reads all pods, and returns the version to watch from. It asks for a state that is not
// older than newest. If the server does not support that, or its cache does not reach that
// version in time, list asks for the newest state, which the server reads from etcd.
func (f *follower) list(ctx context.Context, newest string) (string, error) {
	q := f.query()
	if newest != "" {
		q.Set("resourceVersion", newest)
		q.Set("resourceVersionMatch", "NotOlderThan")
	}
	version, pods, err := f.readPods(ctx, q)
	if newest != "" && (refusedAsSuch(err) || tooLarge(err)) {
		version, pods, err = f.readPods(ctx, f.query())
	}
	if err == nil {
		err = f.believe(allPods, version)
	}
	if err != nil {
		return "", err
	}
	f.notify(f.store.replace(pods))
	return version, nil
}

// readPods reads one list of this node's pods.
func (f *follower) readPods(ctx context.Context, q map[string][]string) (string, map[podName]Pod, error) {
	pods := make(map[podName]Pod)
	version, err := f.readList(ctx, allPods, q, func(it item) error {
		if it.node != f.node {
			return fault.Nonsense("a pod of node %s is in the list of %s", fault.Clean(it.node), f.node)
		}
		name := podName{it.Namespace, it.Name}
		if _, twice := pods[name]; twice {
			return fault.Nonsense("pod %s/%s is listed twice", it.Namespace, it.Name)
		}
		pods[name] = it.Pod
		return nil
	})
	return version, pods, err
}

func (f *follower) readList(ctx context.Context, path string, q map[string][]string, each func(item) error) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timing.call)
	defer cancel()
	resp, err := f.client.get(ctx, path, "application/json", q)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	version, err := decodeList(resp.Body, each)
	if err == nil && !validName(version) {
		err = fault.Nonsense("the list has the resource version %s", fault.Clean(version))
	}
	if err != nil {
		return "", f.client.broken(f.client.op(path), err)
	}
	return version, nil
}

// believe returns an error if an answer is older than what was seen. It accepts the next answer:
// if two in a row are older, the server's etcd was restored from a backup, and nothing of that
// history was seen yet.
func (f *follower) believe(path, version string) error {
	if seen := f.seen; older(version, seen) {
		f.seen = ""
		return &fault.Fault{Op: f.client.op(path), Kind: ErrUnavailable,
			Text: "the answer is of the version " + version + ", older than " + seen + ", which was seen: was etcd restored? Asking again"}
	}
	f.seen = version
	return nil
}

// refusedAsSuch reports whether the server rejected the form of a request or forbade it, so that
// another form may succeed. It is false if the server cannot answer at present or does not know
// the client.
func refusedAsSuch(err error) bool {
	var answer *fault.Answer
	return errors.As(err, &answer) && slices.Contains([]int{http.StatusBadRequest, http.StatusForbidden,
		http.StatusMethodNotAllowed, http.StatusUnprocessableEntity}, answer.Code)
}

// tooLarge reports whether the server's cache did not reach a version in time.
func tooLarge(err error) bool {
	var answer *fault.Answer
	return errors.As(err, &answer) && answer.Status.TooLarge()
}

// older reports whether one resource version precedes another. The versions of pods are decimal
// numbers that only grow within one history of etcd (KEP-5504). For other versions the order is
// unknown, and older returns false.
func older(version, than string) bool {
	if !decimal(version) || !decimal(than) {
		return false
	}
	version, than = strings.TrimLeft(version, "0"), strings.TrimLeft(than, "0")
	return cmp.Or(cmp.Compare(len(version), len(than)), cmp.Compare(version, than)) < 0
}

func decimal(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
