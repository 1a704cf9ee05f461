package kube

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Pod is one pod bound to this node.
type Pod struct {
	// UID is the one its containers carry. For a mirror pod that is the hash of
	// the static pod it stands for, not its own.
	UID       string
	Namespace string
	Name      string

	Deleting bool // its deletion was asked for
	Ended    bool // its phase is Succeeded or Failed: nothing of it will run again
	Evicted  bool // it failed because the kubelet evicted it

	// Images are the references in its spec, as written, each once: of init,
	// ephemeral and normal containers and of image volumes. What is too long for
	// a reference is left out; no runtime could pull it.
	Images []string
}

// equal tells whether a reader of the two would see no difference.
func (p Pod) equal(o Pod) bool {
	return p.UID == o.UID && p.Namespace == o.Namespace && p.Name == o.Name &&
		p.Deleting == o.Deleting && p.Ended == o.Ended && p.Evicted == o.Evicted &&
		slices.Equal(p.Images, o.Images)
}

// Pods is one complete reading.
type Pods struct {
	List []Pod // by namespace, name and UID
	// StaticKnown says that static pods are named even if they have no mirror
	// pod. Without it, a static pod that is not in List may still be there: a static pod
	// is a file on the node, and its containers carry a UID that the kubelet computes from
	// the file, or the one written in it. The API server knows a mirror pod with another
	// UID and that one in the annotation kubernetes.io/config.hash, some time later or
	// never. The annotation is believed of a mirror pod only: anybody can write it into a
	// pod.
	StaticKnown bool
	// Heard is when the other side last sent anything, if the answer is older than the
	// question: a watch that is dead is found out only after a while. Zero: it is not.
	Heard time.Time
}

// Source tells which pods are bound to this node. It is safe for concurrent use.
type Source interface {
	// Run keeps the source up to date until ctx is done, which is no error. It
	// sends to changed whenever something may have changed or the source came or
	// went; it never waits for the receiver, so that changed needs room for one.
	Run(ctx context.Context, changed chan<- struct{}) error

	// Pods returns all pods. An error means that they are not known: never
	// reached, broken off, not complete. Then no pod may be taken for deleted.
	Pods(ctx context.Context) (Pods, error)

	// Pass begins a pass of removals, which asks for many pods: what one reading returned
	// of all of them is not read again for each.
	Pass() Pass
}

// Pass is the questions of one pass of removals. It is safe for concurrent use.
type Pass interface {
	// Gone tells whether this very pod is gone, from a reading that is not from before the pass:
	// for the moment before something is removed because of it. An error means that this is not
	// known. Where [Pods.StaticKnown] is false, do not ask about a pod that may be static.
	Gone(ctx context.Context, namespace, name, uid string) (bool, error)
}

// The limits of what is taken from the other side. They are far above anything
// that works (a node has a few hundred pods, an object at most 1.5 MiB in etcd)
// and bound what a broken or hostile answer can cost.
const (
	maxList       = 256 << 20 // bytes of a whole list
	maxObject     = 4 << 20   // bytes of one object: about what is held at a time
	maxPods       = 1 << 15   // ended pods of jobs count, too
	maxReferences = 1 << 17   // images of all pods together
	maxReference  = 1024      // one image
	maxName       = 253       // any name or UID
	maxAnswer     = 64 << 10  // an answer that is an error
)

// callTimeout bounds every call but the watch, body included.
const callTimeout = 30 * time.Second

// validName is wider than Kubernetes' rules for names, as is the one of
// policy/container: a manifest may give a static pod whatever UID it likes.
// What passes can be printed, and is one element of a path.
func validName(s string) bool {
	return s != "" && len(s) <= maxName && s != "." && s != ".." && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._:", r))
	})
}
