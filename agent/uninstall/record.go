package uninstall

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
)

const (
	// resumable is how long after its start a run may be resumed. Later, ebb may have been
	// installed again: nodes that were clean are cleaned once more.
	resumable = 15 * time.Minute
	// maxRecord bounds the recorded names, in bytes before compression.
	maxRecord = 8 << 20
)

// record is what a run leaves for the next one: the nodes that are clean. It does not name those
// that are left, so that a Node that was absent for a while is not forgotten.
type record struct {
	Metadata   struct{ CreationTimestamp time.Time }
	Data       struct{ Run string }   `json:"data"`       // stamp of the first run in it
	BinaryData struct{ Clean []byte } `json:"binaryData"` // names of nodes, compressed
}

// stamp identifies a run by its start and by what it does.
func stamp(begun time.Time, what ...any) string {
	sum := sha256.Sum256(fmt.Append(nil, what...))
	return fmt.Sprintf("%d-%x", begun.Unix(), sum[:8])
}

// begunAt returns when a run started. ok reports whether that run does the same as what, and may be
// resumed.
func begunAt(run string, what ...any) (at time.Time, ok bool) {
	text, _, _ := strings.Cut(run, "-")
	seconds, err := strconv.ParseInt(text, 10, 64)
	at = time.Unix(seconds, 0)
	return at, err == nil && run == stamp(at, what...) && time.Since(at).Abs() <= resumable
}

// recall reads which nodes earlier runs have cleaned, unless ebb was installed since. If it cannot,
// nodes are cleaned once more, which does no harm.
func (u *unloader) recall(ctx context.Context) {
	u.known, u.since = map[string]bool{}, u.begun
	if u.fresh {
		return
	}
	var r record
	err := send(ctx, u.Client, http.MethodGet, pathOf(configMaps, u.o.Namespace, setName), nil, nil, &r)
	if kube.Answered(err) == http.StatusNotFound {
		return
	}
	at, ok := begunAt(r.Data.Run, u.template)
	if err == nil && ok {
		err = u.take(ctx, r, at)
	}
	if err != nil {
		u.say("what earlier runs have done is not known: %s", clean(err.Error()))
	}
}

// take uses a record, unless another DaemonSet has made pods since: it may have been ebb's,
// installed again.
func (u *unloader) take(ctx context.Context, r record, at time.Time) error {
	names, err := unpack(r.BinaryData.Clean)
	if err != nil {
		return err
	}
	type event struct {
		Metadata struct{ CreationTimestamp time.Time }
	}
	events, err := readAll[event](ctx, u.Client, typeOf("v1", "Event"), kube.Selection{Namespace: u.o.Namespace,
		Fields: "reason=SuccessfulCreate,involvedObject.kind=DaemonSet,involvedObject.name!=" + setName})
	if err != nil {
		return err
	}
	for _, e := range events {
		if !e.Metadata.CreationTimestamp.Before(r.Metadata.CreationTimestamp) {
			return errors.New("another DaemonSet has made pods since")
		}
	}
	u.since = at
	for _, name := range names {
		u.known[name] = true
	}
	return nil
}

// remember writes which nodes are clean now, before the DaemonSet and its pods are deleted.
func (u *unloader) remember(ctx context.Context) {
	if len(u.known) == 0 {
		return
	}
	packed, err := pack(slices.Sorted(maps.Keys(u.known)))
	if err == nil {
		content := object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": setName, "namespace": u.o.Namespace, "labels": object{unloadLabel: "true"}},
			"data": object{"run": stamp(u.since, u.template)}, "binaryData": object{"clean": packed}}
		err = send(ctx, u.Client, http.MethodPatch, pathOf(configMaps, u.o.Namespace, setName), url.Values{"fieldManager": {"ebb-uninstall"}, "force": {"true"}}, content, nil)
	}
	if err != nil {
		u.say("the next run will clear all nodes once more, for it cannot be remembered which are clean: %s", clean(err.Error()))
	}
}

// forget deletes the record when all nodes are clean: the next run could skip none.
func (u *unloader) forget(ctx context.Context) {
	all, err := u.nodes(ctx, kube.Selection{Labels: u.o.NodeSelector})
	if err != nil || len(u.unknown(all)) > 0 {
		return
	}
	err = send(ctx, u.Client, http.MethodDelete, pathOf(configMaps, u.o.Namespace, setName), nil, deleteOptions(), nil)
	if err != nil && kube.Answered(err) != http.StatusNotFound {
		u.say("ConfigMap %s is left: %s", setName, clean(err.Error()))
	}
}

// unknown returns those of the nodes that no run is known to have cleaned.
func (u *unloader) unknown(nodes []string) []string {
	return slices.DeleteFunc(slices.Clone(nodes), func(name string) bool { return u.known[name] })
}

func pack(names []string) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, strings.Join(names, "\n"))
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}

func unpack(packed []byte) ([]string, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", setName, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, maxRecord+1))
	if err == nil && len(text) > maxRecord {
		err = errors.New("it is too long")
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", setName, err)
	}
	return strings.Fields(string(text)), nil
}
