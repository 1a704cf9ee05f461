package pods

import "time"

// Pod is what the collector wants to know of a Pod beside its metadata.
type Pod struct {
	Phase   string    // status.phase: Pending, Running, Succeeded, Failed, Unknown
	Node    string    // spec.nodeName; empty: it was never bound to one
	Created time.Time // metadata.creationTimestamp
	// Ended is when the last of its containers did, of those that are not restarted; zero
	// if it does not say (an eviction before anything ran).
	Ended   time.Time
	Evicted bool // status.reason is Evicted, and it failed
}

// Node is what the collector wants to know of a Node beside its metadata.
type Node struct {
	Ready        bool // the condition Ready is True
	OutOfService bool // it has the taint node.kubernetes.io/out-of-service
}
