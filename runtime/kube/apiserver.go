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

// APIServerOptions holds the node's name and how to reach the API server.
type APIServerOptions struct {
	// NodeName is this node's name in the cluster. In a pod it comes from
	// spec.nodeName, by the downward API.
	NodeName string

	// Kubeconfig is the file with the address and the credentials. If it is empty, the pod's
	// service account is used.
	Kubeconfig string

	// Namespace and DaemonSet name the agents' DaemonSet, whose status holds the number of nodes.
	// The agent needs the right to get it. If DaemonSet is empty, the number of nodes is unknown.
	Namespace, DaemonSet string

	// ListSpread is the time over which all nodes list their pods if they need it at the same
	// moment. 0 means [PerNode] for each node, or [UnknownSpread] if the number of nodes is
	// unknown. In the latter case the first list of a process is immediate: see [APIServer.Run].
	ListSpread time.Duration
}

const (
	// PerNode spreads the lists so that the API server gets 25 a second on average, for any
	// number of nodes. By chance, one second can have 50.
	PerNode = 40 * time.Millisecond
	// UnknownSpread is the spread for 5,000 nodes.
	UnknownSpread = 5000 * PerNode
)

// APIServer watches the pods that the API server has bound to one node.
type APIServer struct {
	client    *client
	node      string
	daemonSet string        // API path; "" if unknown
	spread    time.Duration // 0: PerNode for each node
	store     store
	hurry     chan struct{} // a caller of Hurry waits for the list
	timing    timing
}

// timing holds the durations that tests shorten.
type timing struct {
	call time.Duration // limit of a list or a get, including its body
	// idle is how long a watch may be silent. The server sends a bookmark about every minute.
	// After idle the watch is restarted, which also reveals a dead connection: after idle plus
	// connect at the latest.
	idle    time.Duration
	connect time.Duration
	// life is the minimum timeout of a watch that the server is asked for. The maximum is twice
	// that.
	life time.Duration
	// resume is the longest pause before a watch that was cut off is restarted.
	resume time.Duration
	// trust is how long a watch must last before the pods count as known again.
	trust time.Duration
	// firstPause and maxPause bound the pauses between attempts to watch, or to get the newest
	// version. The pause doubles with each failure.
	firstPause, maxPause time.Duration
	// firstWindow and maxWindow bound the window from which the pause after a failed list is
	// drawn. The window grows fourfold with each failure.
	firstWindow, maxWindow time.Duration
	// unknownSpread is the time over which all nodes list if their number is unknown.
	unknownSpread time.Duration
}

var usualTiming = timing{
	call: callTimeout, idle: 70 * time.Second, connect: 15 * time.Second,
	life: 5 * time.Minute, resume: time.Second, trust: time.Second,
	firstPause: 250 * time.Millisecond, maxPause: maxBackoff, firstWindow: time.Second, maxWindow: 100 * time.Second,
	unknownSpread: UnknownSpread,
}

// NewAPIServer reads the credentials. It sends no request. The pods are unknown until Run has
// listed them.
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

// Hurry makes Run list the pods at once if the list waits for this node's turn. It is for a node
// that needs to remove images. The channel is closed when that wait is over; it is nil if no list
// waits.
func (s *APIServer) Hurry() <-chan struct{} {
	listed := s.store.awaited()
	if listed != nil {
		select {
		case s.hurry <- struct{}{}:
		default: // already requested
		}
	}
	return listed
}

// Pass implements Source. Each call of Gone is one request to the API server.
func (s *APIServer) Pass() Pass { return s }

// Gone implements Pass.
//
// A pod is gone if a Status of the API server states that this very pod does not exist, or if
// another pod has its name. A bare 404, a refusal or a timeout proves nothing. With a wrong node
// name every list is empty, so Gone returns an error if the pod is bound to another node. The
// credentials of a kubelet may not suffice: a node may only get pods that exist, and the API
// server answers 403 for a deleted one.
func (s *APIServer) Gone(ctx context.Context, namespace, name, uid string) (bool, error) {
	// The names come from labels that any user can write. Only a valid path element may become
	// part of the path.
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
		return true, nil // another pod has the name
	}
	// A pod never moves to another node. If its containers are here, the configured name of this
	// node is wrong, and so is every list.
	if it.node != "" && it.node != s.node {
		return false, fmt.Errorf("%s: %w: the pod is bound to node %s, not to %s: is the node's name right?",
			s.client.op(path), ErrMalformed, fault.Clean(it.node), s.node)
	}
	return false, nil
}

// absent reports whether an error states that exactly this object does not exist.
func absent(err error, group, kind, name string) bool {
	var answer *fault.Answer
	return errors.As(err, &answer) && answer.Code == http.StatusNotFound && answer.Status.Absent(group, name, kind)
}

// objectName is Kubernetes' rule for the names of nodes, namespaces and pods: a DNS subdomain.
var objectName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

func validObjectName(s string) bool { return len(s) <= maxName && objectName.MatchString(s) }

// Uninstalled reports whether ebb is being removed from the cluster. It returns the reason, or ""
// if ebb is not being removed. It is for an agent that is stopping and may get the namespace and
// the DaemonSet of ebb.
//
// ebb is being removed if one of the two is gone or being deleted. The same deletion removes the
// agent's account and its rights, so a 401 or 403 means the same. If the API server does not
// answer, Uninstalled returns an error.
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

// deleted reports whether an object has a deletionTimestamp.
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
