package leases

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// Lease is what the collector wants to know of a Lease beside its metadata. Of a Node it
// wants the metadata alone.
type Lease = nodes.Lease

// Config says which Leases are collected.
type Config struct {
	// Quarantine is how long the Node of a Lease must be missing, and the Lease expired.
	// Default 1h, and 1s at least.
	Quarantine time.Duration
	// Elections are reported, or deleted. The first that names a Lease counts.
	Elections []Election
	// Own are ebb's Leases, as namespace/name.
	Own []string
}

// Election names Leases by which somebody elects a leader.
type Election struct {
	Namespaces gc.Patterns // empty: all
	Names      gc.Patterns
	After      time.Duration // since the Lease expired
	// Delete those whose holder is a Pod of the Lease's namespace that is gone, or nobody.
	Delete bool
}

// Name is the collector's.
const Name gc.Collector = "leases"

// Why a Lease goes, be that later.
const (
	NodeGone          gc.Reason = "node_gone"
	ElectionAbandoned gc.Reason = "election_abandoned" // if its holder's Pod is gone, too
)

// ElectionExpired is why somebody should look at a Lease, which is kept.
const ElectionExpired gc.Reason = "election_expired"

// Why a Lease is kept.
const (
	NodeThere   gc.Reason = "node_exists"
	Owned       gc.Reason = "owned"        // it goes with its owners
	OtherHolder gc.Reason = "other_holder" // in kube-node-lease, and held by another than that Node
	NodesUnread gc.Reason = "nodes_not_read"
	Unread      gc.Reason = "type_not_read" // Leases were not listed, or cannot be read now
	Terminating gc.Reason = "terminating"
	APIServer   gc.Reason = "apiserver_identity"
	EbbsOwn     gc.Reason = "own_lease"
	InElection  gc.Reason = "election" // Config names it; it has not expired for long enough
	NotSelected gc.Reason = "not_selected"
)
