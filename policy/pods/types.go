package pods

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Name is the collector's name.
const Name gc.Collector = "pods"

// Pod has the fields of a Pod that the collector needs beside its metadata.
type Pod struct {
	Phase   string    // status.phase: Pending, Running, Succeeded, Failed, Unknown
	Node    string    // spec.nodeName; empty: it was never bound to one
	Created time.Time // metadata.creationTimestamp
	// Ended is when its last container ended, sidecars included; zero if that is not set (an
	// eviction before anything ran), or one of them has not ended.
	Ended   time.Time
	Evicted bool // status.reason is Evicted, and it failed
	// Generation is metadata.generation; 0: the API server sets none.
	Generation uint32
	NoGrace    bool // metadata.deletionGracePeriodSeconds is 0: it was deleted by force
}

// Node has the fields of a Node that the collector needs beside its metadata.
type Node struct {
	Ready        bool // the condition Ready is True
	OutOfService bool // it has the taint node.kubernetes.io/out-of-service
}

// Config selects the Pods that are collected. The zero value does as the
// kube-controller-manager does, except for MaxShare.
type Config struct {
	// Namespaces are those in which Pods are collected and counted. Empty: all.
	Namespaces gc.Patterns
	// Excluded are namespaces whose Pods must not be deleted. These Pods are not counted, and
	// do not affect the Pods of other namespaces.
	Excluded gc.Patterns
	// Keep is how many ended Pods are kept in all these namespaces together. 0: 12,500. Below
	// 0: all.
	Keep int
	// Succeeded and Failed limit the Pods of that phase further.
	Succeeded, Failed Limits
	// Quarantine is how long a Node must be missing before it is read live, and how long
	// the answer holds. 0 or less: 40s.
	Quarantine time.Duration
	// MaxShare is the share of all Nodes, lost ones included, that may be lost within
	// [nodes.LostTogether]. The number is rounded up, and one Node may always be lost. If more are
	// lost, their Pods stay until a person confirms that the Nodes are gone
	// ([Collector.ConfirmLost]), or enough Nodes appear. 1 or more: there is no such limit. 0 or
	// less: 0.34, which allows for one of three zones.
	MaxShare float64
}

// Limits are for Pods that ended in one phase. Of the excess, evicted Pods are deleted first,
// then those created first. The zero value limits nothing.
type Limits struct {
	PerNamespace int           // number kept in each namespace. 0 or less: all
	PerOwner     int           // number kept for each first owner reference. 0 or less: all
	After        time.Duration // how long they are kept after their end. 0 or less: forever
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

// Reasons to delete a Pod.
const (
	OverLimit          gc.Reason = "over_limit"           // more ended than Config.Keep
	OverNamespaceLimit gc.Reason = "over_namespace_limit" // more than Limits.PerNamespace
	OverOwnerLimit     gc.Reason = "over_owner_limit"     // more than Limits.PerOwner
	TimeUp             gc.Reason = "time_up"              // Limits.After has passed
	NodeGone           gc.Reason = "node_gone"
	OutOfService       gc.Reason = "node_out_of_service"
	NeverScheduled     gc.Reason = "terminating_never_scheduled"
)

// Reasons to keep a Pod.
const (
	Running        gc.Reason = "running"
	Pending        gc.Reason = "pending"
	PhaseUnknown   gc.Reason = "phase_unknown"
	WithinLimits   gc.Reason = "within_limits" // it ended; Limits.After may not have passed yet
	Terminating    gc.Reason = "terminating"   // already deleted; its kubelet ends it
	Held           gc.Reason = "held_by_finalizers"
	OtherNamespace gc.Reason = "namespace_not_selected"
	Excluded       gc.Reason = "namespace_excluded"
	NodeMissing    gc.Reason = "node_missing" // it may come back, or no live read has found it absent
	TooManyLost    gc.Reason = "too_many_nodes_lost"
	NodesUnread    gc.Reason = "nodes_not_read" // whether its Node exists is unknown
	PodsUnread     gc.Reason = "pods_not_read"  // it may be one too many, but the count is unknown
)
