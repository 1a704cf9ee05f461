package kube

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Pod is one pod bound to this node.
type Pod struct {
	// UID is the UID that the pod's containers carry. For a mirror pod it is the hash of its
	// static pod, not the mirror pod's own UID.
	UID       string
	Namespace string
	Name      string

	Deleting bool // it has a deletionTimestamp
	Ended    bool // its phase is Succeeded or Failed: nothing of it will run again
	Evicted  bool // it failed because the kubelet evicted it

	// Images are the references in the pod's spec, as written, each once: of init, ephemeral and
	// normal containers and of image volumes. A text that is too long for a reference is left
	// out, because no runtime could pull it.
	Images []string
}

// equal reports whether p and o are the same for a reader.
func (p Pod) equal(o Pod) bool {
	return p.UID == o.UID && p.Namespace == o.Namespace && p.Name == o.Name &&
		p.Deleting == o.Deleting && p.Ended == o.Ended && p.Evicted == o.Evicted &&
		slices.Equal(p.Images, o.Images)
}

// Pods is one complete reading.
type Pods struct {
	List []Pod // sorted by namespace, name and UID
	// StaticKnown reports whether List has static pods even if they have no mirror pod. If it is
	// false, a static pod that is not in List may still exist. A static pod is a file on the
	// node. Its containers carry a UID that the kubelet computes from the file, or the UID in the
	// file. The API server knows the mirror pod under another UID, some time later or never, and
	// has the containers' UID in the annotation kubernetes.io/config.hash. The annotation is
	// trusted on a mirror pod only, because any user can write it into a pod.
	StaticKnown bool
	// Heard is when the server last sent anything. It is set if the pods are older than the call
	// of Pods: a dead watch is noticed only after a while. Zero means that the pods were read
	// during the call.
	Heard time.Time
}

// Source reports which pods are bound to this node. It is safe for concurrent use.
type Source interface {
	// Run keeps the source up to date until ctx is done, and returns nil then. It sends to
	// changed whenever the pods may have changed, or the source became available or unavailable.
	// It never waits for the receiver, so changed needs a buffer of one.
	Run(ctx context.Context, changed chan<- struct{}) error

	// Pods returns all pods. An error means that they are unknown: the server was never reached,
	// the connection broke, or the answer is incomplete. Then no pod may be treated as deleted.
	Pods(ctx context.Context) (Pods, error)

	// Pass begins a pass of removals. A pass asks about many pods, so one reading of all pods may
	// answer several of its questions.
	Pass() Pass
}

// Pass answers the questions of one pass of removals. It is safe for concurrent use.
type Pass interface {
	// Gone reports whether the pod with this UID is gone. The answer is from a reading that began
	// after the pass did. Call it right before something is removed because the pod is gone. An
	// error means that the answer is unknown. If [Pods.StaticKnown] is false, do not ask about a
	// pod that may be static.
	Gone(ctx context.Context, namespace, name, uid string) (bool, error)
}

// Limits of what is read from a server. They are far above real values (a node has a few hundred
// pods, an object at most 1.5 MiB in etcd), and bound the cost of a broken or hostile answer.
const (
	maxList       = 256 << 20 // bytes of a whole list
	maxObject     = 4 << 20   // bytes of one object: about what is held at a time
	maxPods       = 1 << 15   // ended pods of jobs count, too
	maxReferences = 1 << 17   // images of all pods together
	maxReference  = 1024      // one image
	maxName       = 253       // any name or UID
	maxAnswer     = 64 << 10  // bytes of an error response
)

// callTimeout bounds every call but the watch, body included.
const callTimeout = 30 * time.Second

// validName accepts more than Kubernetes' rules for names, as does the one of policy/container,
// because a manifest can give a static pod any UID. An accepted name is printable, and is one
// element of a path.
func validName(s string) bool {
	return s != "" && len(s) <= maxName && s != "." && s != ".." && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._:", r))
	})
}
