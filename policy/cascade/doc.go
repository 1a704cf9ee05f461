// Package cascade decides what is deleted, patched or left alone because of the owner
// references of Kubernetes objects: what the garbage-collector-controller decides, as a
// state machine without I/O.
//
// [Collector] is the dependency graph and the rules. Events, lists and the answers to
// requests go in, actions come out ([Collector.Ready]); the time is an argument of
// everything. The same inputs in the same order give the same actions in the same order.
// It is a pure core in the manner of etcd/raft: the caller does the I/O, as the methods
// demand. docs/cascade.md has the rules for people; judgement and decide have them here.
//
// # Invariants
//
// Nothing with a live solid owner is ever deleted. Unknown never deletes. What is
// terminating is never deleted again, because DELETE would rewrite its finalizers. The
// finalizer orphan is removed only from what the journal has. Every action carries the
// UID; a Delete carries the resourceVersion it was decided on. Types are independent.
//
// # Cost
//
// An input costs what it changes: an event of one object looks at its references and, if
// the object begins or stops to exist, wait or orphan, at its dependents. Only lists, new
// types and a restored etcd look at a whole type or more. At 100,000 objects of small
// metadata an object takes 194 bytes of heap (a test refuses more than 260), and observing
// one takes 2 µs; 5,000 dependents of one owner have their actions after 6 ms.
//
// # Failure modes
//
// A restart loses nothing: pending work is in the objects' finalizers, and what was known
// of absent owners is read again. An action without an answer holds its object until
// restart. Failures are tried again with doubling pauses. [Config] bounds how long anything
// waits. An owner whose type is not served stays unknown; quarantine.go has the rules for
// types of other API servers.
//
// Sources: k8s.io/kubernetes/pkg/controller/garbagecollector (v1.36), and
// deletionFinalizersForGarbageCollection in k8s.io/apiserver. Faults that are not repeated:
// kubernetes issues 26120, 60037, 77081, 87668, 131307, 142039.
package cascade
