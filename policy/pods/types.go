package pods

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Name is the collector's.
const Name gc.Collector = "pods"

// Pod is what the collector wants to know of a Pod beside its metadata.
type Pod struct {
	Phase   string    // status.phase: Pending, Running, Succeeded, Failed, Unknown
	Node    string    // spec.nodeName; empty: it was never bound to one
	Created time.Time // metadata.creationTimestamp
	// Ended is when the last of its containers did, sidecars among them; zero if it does
	// not say (an eviction before anything ran), or one of them has not ended.
	Ended   time.Time
	Evicted bool // status.reason is Evicted, and it failed
	NoGrace bool // metadata.deletionGracePeriodSeconds is 0: it was deleted by force
}

// Node is what the collector wants to know of a Node beside its metadata.
type Node struct {
	Ready        bool // the condition Ready is True
	OutOfService bool // it has the taint node.kubernetes.io/out-of-service
}

// Config says which Pods are collected. The zero value does as the kube-controller-manager
// does, but for MaxShare.
type Config struct {
	// Namespaces in which Pods are collected and counted. Empty: all.
	Namespaces gc.Patterns
	// Excluded are namespaces whose Pods nobody may delete. Those are not counted, and
	// keep no others.
	Excluded gc.Patterns
	// Keep is how many Pods that ended are kept in all of them. 0: 12,500. Below 0: all.
	Keep int
	// Succeeded and Failed limit the Pods of that phase further.
	Succeeded, Failed Limits
	// Quarantine is how long a Node must be missing before it is read live, and how long
	// the answer holds. 0 or less: 40s.
	Quarantine time.Duration
	// MaxShare of all Nodes, those lost included, may be lost within [nodes.LostTogether]; one always
	// may, and the number is rounded up. If more are, the Pods of those Nodes stay until a person
	// confirms that the Nodes are gone ([Collector.ConfirmLost]), or Nodes come. 1 or more: there
	// is no such limit. 0 or less: 0.34, with which one zone of three may go.
	MaxShare float64
}

// Limits are for Pods that ended in one phase. Of what is too much, evicted Pods go first,
// then those created first. The zero value limits nothing.
type Limits struct {
	PerNamespace int           // so many are kept in each namespace. 0 or less: all
	PerOwner     int           // so many are kept of each first owner reference. 0 or less: all
	After        time.Duration // they go so long after their end. 0 or less: never
}

const (
	defaultKeep       = 12500
	defaultQuarantine = 40 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Keep == 0 {
		c.Keep = defaultKeep
	}
	if c.Quarantine <= 0 {
		c.Quarantine = defaultQuarantine
	}
	return c
}

// Why a Pod goes.
const (
	OverLimit          gc.Reason = "over_limit"           // more ended than Config.Keep
	OverNamespaceLimit gc.Reason = "over_namespace_limit" // more than Limits.PerNamespace
	OverOwnerLimit     gc.Reason = "over_owner_limit"     // more than Limits.PerOwner
	TimeUp             gc.Reason = "time_up"              // Limits.After has passed
	NodeGone           gc.Reason = "node_gone"
	OutOfService       gc.Reason = "node_out_of_service"
	NeverScheduled     gc.Reason = "terminating_never_scheduled"
)

// Why a Pod is kept.
const (
	Running        gc.Reason = "running"
	Pending        gc.Reason = "pending"
	PhaseUnknown   gc.Reason = "phase_unknown"
	WithinLimits   gc.Reason = "within_limits" // it ended; it may have time left
	Terminating    gc.Reason = "terminating"   // deleted already; its kubelet ends it
	Held           gc.Reason = "held_by_finalizers"
	OtherNamespace gc.Reason = "namespace_not_selected"
	Excluded       gc.Reason = "namespace_excluded"
	NodeMissing    gc.Reason = "node_missing" // it may come back, or was not yet read to be absent
	TooManyLost    gc.Reason = "too_many_nodes_lost"
	NodesUnread    gc.Reason = "nodes_not_read" // whether its Node is there is not known
	PodsUnread     gc.Reason = "pods_not_read"  // it may be too many, but how many there are is not known
)
