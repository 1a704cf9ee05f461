package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// APIServerOptions say which node, and how to reach the API server.
type APIServerOptions struct {
	// NodeName is this node's name in the cluster. In a pod it comes from
	// spec.nodeName, by the downward API.
	NodeName string

	// Kubeconfig is a file to take address and credentials from. Without it, the
	// service account of the pod is used.
	Kubeconfig string

	// Namespace and DaemonSet name the agents' DaemonSet, which says how many nodes there
	// are. The agent may get it. Without it the number is not known.
	Namespace, DaemonSet string

	// ListSpread is within what time all nodes list their pods if they need it at the same
	// moment. 0: [PerNode] for each node, or [UnknownSpread] if their number is not known.
	ListSpread time.Duration
}

const (
	// PerNode makes 25 lists a second of any number of nodes. By chance they can be 50 in
	// one second.
	PerNode = 40 * time.Millisecond
	// UnknownSpread is right for 5,000 nodes.
	UnknownSpread = 5000 * PerNode
)

// APIServer watches the pods that the API server has bound to one node.
type APIServer struct {
	client    *client
	node      string
	daemonSet string        // its path; "": not known
	spread    time.Duration // 0: by the number of nodes
	store     store
	hurry     chan struct{} // somebody waits for the list
	timing    timing
}

// timing is apart for tests.
type timing struct {
	call time.Duration // a list or a get, its body included
	// idle is how long a watch may say nothing. A bookmark comes about every
	// minute. Then the watch is begun anew, which is where a connection that is
	// dead shows: after idle and connect at the latest.
	idle    time.Duration
	connect time.Duration
	// life is what the server is asked to end a watch after, up to twice that.
	life time.Duration
	// resume bounds the pause before a watch that was cut is begun anew.
	resume time.Duration
	// trust is how long a watch must go on before pods count as known again.
	trust time.Duration
	// firstPause and maxPause are between attempts to watch, or to learn the newest
	// version: these pauses double.
	firstPause, maxPause time.Duration
	// firstWindow and maxWindow are what pauses after lists that failed are drawn from:
	// four times as much after each.
	firstWindow, maxWindow time.Duration
	// unknownSpread is the time for the lists of all nodes if their number is not known.
	unknownSpread time.Duration
}

var usualTiming = timing{
	call: callTimeout, idle: 70 * time.Second, connect: 15 * time.Second,
	life: 5 * time.Minute, resume: time.Second, trust: time.Second,
	firstPause: 250 * time.Millisecond, maxPause: maxBackoff, firstWindow: time.Second, maxWindow: 100 * time.Second,
	unknownSpread: UnknownSpread,
}

// NewAPIServer reads the credentials; it does not ask the API server anything
// yet. Until Run has listed the pods, they are not known.
func NewAPIServer(o APIServerOptions) (*APIServer, error) {
	if !validObjectName(o.NodeName) {
		return nil, fmt.Errorf("API server: node name %q: set it to this node's name in the cluster, in a pod from spec.nodeName", fault.Clean(o.NodeName))
	}
	var a access
	var err error
	if o.Kubeconfig != "" {
		a, err = readKubeconfig(o.Kubeconfig)
	} else {
		a, err = inCluster(serviceAccount)
	}
	if err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	s, err := newAPIServer(a, o.NodeName)
	if err != nil {
		return nil, err
	}
	s.spread = o.ListSpread
	if o.DaemonSet != "" {
		if !validObjectName(o.Namespace) || !validObjectName(o.DaemonSet) {
			return nil, fmt.Errorf("API server: DaemonSet %q: it cannot have that name", fault.Clean(o.Namespace+"/"+o.DaemonSet))
		}
		s.daemonSet = daemonSetPath(o.Namespace, o.DaemonSet)
	}
	return s, nil
}

func newAPIServer(a access, node string) (*APIServer, error) {
	c, err := newClient(a, hints{unauthorized: apiUnauthorized, forbidden: apiForbidden})
	if err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	s := &APIServer{client: c, node: node, hurry: make(chan struct{}, 1), timing: usualTiming}
	s.store.node, s.store.waits, s.store.news = node, true, make(chan struct{})
	s.store.err = fmt.Errorf("%s: %w: %w", c.op(allPods), ErrUnavailable, ErrNotYet)
	return s, nil
}

func apiUnauthorized(identity string) string {
	return "the API server does not know " + identity + "; it may have expired"
}

func apiForbidden(path string) string {
	if strings.HasPrefix(path, nodeEvents) {
		return "allow that identity to create and patch events in the namespace default"
	}
	return "allow that identity to get, list and watch pods in all namespaces"
}

// allPods is where the pods of all namespaces are listed and watched.
const allPods = "/api/v1/pods"

// Pods implements Source. It answers from what the watch has reported.
func (s *APIServer) Pods(context.Context) (Pods, error) {
	return s.store.reading()
}

// Hurry has the pods listed at once if the list waits for this node's turn. It is for a node that
// needs to remove images. The channel is closed when the wait for the list is over; nil: there is none.
func (s *APIServer) Hurry() <-chan struct{} {
	listed := s.store.awaited()
	if listed != nil {
		select {
		case s.hurry <- struct{}{}:
		default: // somebody has asked for it
		}
	}
	return listed
}

// Pass implements Source: each question is one to the server.
func (s *APIServer) Pass() Pass { return s }

// Gone implements Pass.
//
// A pod is gone if the API server says, in so many words, that this pod does not exist,
// or if another pod has its name. A bare 404, a refusal or silence says nothing. The name
// of the node is the caller's word, and a wrong one gives empty lists: Gone notices if
// the pod is bound elsewhere. The credentials of a kubelet may not do, because nodes may
// only ask for pods that exist, and get 403 for one that went.
func (s *APIServer) Gone(ctx context.Context, namespace, name, uid string) (bool, error) {
	// The names are from labels that anybody may have written; what is no
	// element of a path must not get into one.
	if !validObjectName(namespace) || !validObjectName(name) || uid == "" {
		return false, fmt.Errorf("ask for pod %q: no pod can have that name", fault.Clean(namespace+"/"+name))
	}
	ctx, cancel := context.WithTimeout(ctx, s.timing.call)
	defer cancel()
	path := "/api/v1/namespaces/" + namespace + "/pods/" + name
	var o object
	err := s.client.read(ctx, path, nil, &o)
	switch {
	case absent(err, "", "pods", name):
		return true, nil
	case err != nil:
		return false, err
	}
	it, err := o.named()
	if err == nil && (it.Namespace != namespace || it.Name != name) {
		err = fault.Nonsense("the answer is about %s/%s", it.Namespace, it.Name)
	}
	if err != nil {
		return false, s.client.broken(s.client.op(path), err)
	}
	if it.ownUID != uid && it.UID != uid {
		return true, nil // another one of that name
	}
	// A pod is bound once and for ever. If its containers are here, it is the
	// name of this node that is wrong, and with it every list.
	if it.node != "" && it.node != s.node {
		return false, fmt.Errorf("%s: %w: the pod is bound to node %s, not to %s: is the node's name right?",
			s.client.op(path), ErrMalformed, fault.Clean(it.node), s.node)
	}
	return false, nil
}

// absent reports whether an error says that exactly this object does not exist.
func absent(err error, group, kind, name string) bool {
	var answer *fault.Answer
	return errors.As(err, &answer) && answer.Code == http.StatusNotFound && answer.Status.Absent(group, name, kind)
}

// objectName is Kubernetes' rule for the names of nodes, namespaces and pods: a DNS subdomain.
var objectName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

func validObjectName(s string) bool { return len(s) <= maxName && objectName.MatchString(s) }

// Uninstalled reports whether ebb is being removed from the cluster, with the reason; "" if it is not.
// It is for an agent that is stopping and may get the namespace and the DaemonSet of ebb.
//
// It is being removed if one of the two is gone or being deleted. The agent's account and its rights
// go in the same deletion, so an API server that refuses it says the same. No answer says nothing.
func (s *APIServer) Uninstalled(ctx context.Context, namespace, daemonSet string) (reason string, err error) {
	if !validObjectName(namespace) || !validObjectName(daemonSet) {
		return "", fmt.Errorf("ask for DaemonSet %q: it cannot have that name", fault.Clean(namespace+"/"+daemonSet))
	}
	ctx, cancel := context.WithTimeout(ctx, s.timing.call)
	defer cancel()
	for _, o := range []struct{ path, group, kind, name string }{
		{"/api/v1/namespaces/" + namespace, "", "namespaces", namespace},
		{daemonSetPath(namespace, daemonSet), "apps", "daemonsets", daemonSet},
	} {
		deleted, err := s.deleted(ctx, o.path)
		switch {
		case deleted:
			return o.kind + " " + o.name + " is being deleted", nil
		case absent(err, o.group, o.kind, o.name):
			return o.kind + " " + o.name + " is gone", nil
		case errors.Is(err, ErrUnauthorized), errors.Is(err, ErrForbidden):
			return "the account of the agent or its rights are gone", nil
		case err != nil:
			return "", err
		}
	}
	return "", nil
}

func daemonSetPath(namespace, name string) string {
	return "/apis/apps/v1/namespaces/" + namespace + "/daemonsets/" + name
}

// deleted reports whether an object has a time of deletion.
func (s *APIServer) deleted(ctx context.Context, path string) (bool, error) {
	var o struct {
		Metadata struct {
			Name              string     `json:"name"`
			DeletionTimestamp *time.Time `json:"deletionTimestamp"`
		} `json:"metadata"`
	}
	err := s.client.read(ctx, path, nil, &o)
	if err == nil && o.Metadata.Name == "" {
		err = s.client.broken(s.client.op(path), fault.Nonsense("the answer is no object"))
	}
	return err == nil && o.Metadata.DeletionTimestamp != nil, err
}
