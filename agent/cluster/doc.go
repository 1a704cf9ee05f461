// Package cluster is the controller of one cluster. It deletes API objects whose owners are gone,
// as the garbage-collector-controller of the kube-controller-manager does, and runs the collectors
// of Pods, Jobs and so on.
//
// # Who owns what
//
// One goroutine, [Controller.Run]'s loop, owns the graph of policy/cascade, the types and the limit
// of requests. All others talk to it through channels only:
//
//   - a follower for each type passes on what it listed and watched, batch by batch, and waits
//     until the batch was applied (follow.go),
//   - workers carry out actions and send back the results,
//   - the discovery poller asks which types there are (discovery.go),
//   - the journal of orphaned owners is written beside the loop (package journal),
//   - the event recorder creates events; nothing depends on them (package events),
//   - the HTTP server asks for explanations (server.go).
//
// The loop has no ticker. It sleeps until an answer, an input or the collector's next deadline. It
// takes answers first: a free worker is worth more than a newer graph.
//
// # Invariants
//
// Every deletion and every patch passes package gate. Nothing is sent before the state of the last
// leader and, unless owners are off, the journal are read. Only the leader calls [Controller.Run];
// a standby follows nothing. When the Lease is lost, nothing more is sent. Deletions and patches
// carry preconditions, so two leaders at once are safe, only redundant.
//
// # Failure modes
//
// A restart loses nothing: pending work is in the objects' finalizers. If the API server is away,
// slow or overloaded, the limiter goes down to one request at a time, with pauses. A type that
// cannot be read is logged once, and blocks only what depends on it. If resourceVersions go
// backwards, or listed objects contradict what was watched, etcd was restored: everything is listed
// again, and proofs of absence are dropped.
//
// Sources: k8s.io/kubernetes/pkg/controller/garbagecollector (v1.36); kubernetes issue 60037 (empty
// discovery); client-go tools/record and tools/leaderelection.
package cluster
