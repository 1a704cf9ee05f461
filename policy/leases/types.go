package leases

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// Lease has the fields of a Lease that the collector needs beside its metadata. Of a Node, it
// needs the metadata alone.
type Lease = nodes.Lease

// Config configures which Leases are collected.
type Config struct {
	// Quarantine is how long the Node of a Lease must be missing, and the Lease expired.
	// Default 1h, minimum 1s.
	Quarantine time.Duration
	// Elections select Leases to report or to delete. The first that names a Lease counts.
	Elections []Election
	// Own are ebb's Leases, as namespace/name.
	Own []string
}

// Election selects Leases that are used for a leader election.
type Election struct {
	Namespaces gc.Patterns // empty: all
	Names      gc.Patterns
	After      time.Duration // since the Lease expired
	// Delete: the Lease is deleted if it has no holder, or if its holder is a Pod of its
	// namespace that is gone.
	Delete bool
}

// Name is the collector's name.
const Name gc.Collector = "leases"

// Reasons to delete a Lease, now or later.
const (
	NodeGone          gc.Reason = "node_gone"
	ElectionAbandoned gc.Reason = "election_abandoned" // it has no holder, or its holder's Pod is gone
)

// ElectionExpired: the Lease is kept, and an operator should look at it.
const ElectionExpired gc.Reason = "election_expired"

// Reasons to keep a Lease.
const (
	NodeThere   gc.Reason = "node_exists"
	Owned       gc.Reason = "owned"        // it goes with its owners
	OtherHolder gc.Reason = "other_holder" // in kube-node-lease, and its holder is not its Node
	NodesUnread gc.Reason = "nodes_not_read"
	Unread      gc.Reason = "type_not_read" // Leases were not listed, or cannot be read now
	Terminating gc.Reason = "terminating"
	APIServer   gc.Reason = "apiserver_identity"
	EbbsOwn     gc.Reason = "own_lease"
	InElection  gc.Reason = "election" // Config names it; it has not expired for long enough
	NotSelected gc.Reason = "not_selected"
)
