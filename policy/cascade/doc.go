// Package cascade decides what is to be deleted, patched or left alone because
// of the owner references of Kubernetes objects: what the
// garbage-collector-controller decides, as a state machine without I/O.
//
// [Collector] is the dependency graph and the rules. Events, lists and the
// answers to requests go in, actions come out ([Collector.Ready]); the time is an
// argument of everything. The same inputs in the same order give the same actions
// in the same order. It is the pure core in the manner of etcd/raft: whoever
// drives it does the I/O, in the order that is said below.
//
// # What is true
//
// A reference is judged at its own coordinates: apiVersion, kind, name, UID, and
// the namespace of its dependent if the owner's type has namespaces. References
// that give one UID different coordinates are different questions. It is
//
//   - solid if the object was seen at these coordinates (the same object in
//     another version of its group counts), and is not waiting;
//   - waiting if that object is being deleted and has foregroundDeletion;
//   - orphaning if it is being deleted and has orphan: solid still, but its
//     dependents are to be left behind;
//   - dangling if the UID was seen to go (a DELETED event), or a live read proved
//     the owner absent;
//   - unresolvable if the dependent has no namespace and the owner's type has;
//   - unknown otherwise: not seen yet, missing from a list, its type not served.
//
// That an owner is gone is permanent. A deletion that nobody saw (missing after a
// list) is only a reason to read the owner live, once for all its dependents.
// That an owner waits is not permanent: a second DELETE with Orphan rewrites its
// finalizers, and leaves the dependents' versions alone. It is read again at most
// Config.FreshFor before it is acted on.
//
// # What is done
//
//   - No owner but dangling ones: delete. The object's own finalizers choose the
//     policy, because any other would strip them.
//   - A solid owner: the dangling and waiting references beside it are taken away.
//   - No owner but waiting (and dangling) ones: delete, foreground if it has
//     dependents itself. If one of those waits, too, its own references are
//     unblocked first: they may be a circle.
//   - Deleted and waiting: once no reference blocks it, foregroundDeletion comes
//     off. Two that wait for each other are unblocked. (The kube-controller-manager
//     leaves those, and one that refers to itself, forever.)
//   - Deleted with orphan: the journal has it, all references to its UID that are
//     known are taken away, then the finalizer is.
//   - A reference to an absent owner that the journal has: it is taken away, and
//     nothing is deleted because of it.
//   - Terminating otherwise: nothing. DELETE would rewrite its finalizers.
//
// Two things differ from the kube-controller-manager on purpose. That deletes a
// dependent of a waiting owner foreground even if the dependent has the finalizer
// orphan, and counts a reference as blocking whatever its coordinates.
//
// What is excluded is neither deleted nor patched, but for its own foregroundDeletion or
// orphan: if somebody deleted it, that comes off once nothing holds it any more.
//
// # Invariants
//
// Nothing with a live solid owner is ever deleted. Unknown never deletes. What is
// terminating is never deleted again. The finalizer orphan comes off only of what
// the journal has. Every action carries the UID; a Delete carries the resourceVersion it
// was decided on, so that what has changed meanwhile refuses it. An object that
// changes all the time is read and deleted back to back, then after pauses that
// double, and is reported; it never goes by its UID alone.
//
// # The caller's duties
//
//   - TypeCame before Listing, Listing before the objects of a list, Synced after
//     them, then the watch's events in order. Types are independent of each other.
//   - A DELETED event goes to Forget, and nothing else does. Missing from
//     discovery is TypeWent, which proves nothing.
//   - Recall what the durable journal has before the first Ready.
//   - Ready only for what is sent at once. Every action is answered, by its ID:
//     Answered or Finished; one that is not carried out with Failed. An answer that is late, or for nobody, is ignored.
//   - Deferred is the answer to a Delete that the caller does not want now; Slow (of one
//     root) or Hold (of all) comes before it, and says when it does.
//   - Withheld is the answer to what the caller does not want to do (it only observes): the
//     same is not asked for again until the object changes.
//   - Restored when resourceVersions go backwards, or an object in a list Contradicts
//     what was told before; and then a list of every type.
//   - Absent and Gone only for a Status NotFound whose details name that very
//     object. Anything else that failed is Unknown or Failed.
//   - The object that a successful patch returned goes to Patched before
//     Finished, with the owner references and finalizers of the response.
//   - Done of a Record only when the UID is stored where the next process finds it;
//     Record and Withdraw in the order in which they were given out.
//   - Swept only of a moment up to which every type has told everything, into Observe
//     and Forget.
//   - Ready again at Next.
//
// # Cost
//
// An input costs what it changes: an event of one object looks at its references
// and, if it becomes or ends being waiting, orphaning or there, at its dependents.
// Only lists, types that come, and a restored etcd look at a whole type or more.
// At 100,000 objects of small metadata an object takes 194 bytes of heap (a test
// refuses more than 260), observing one 2 µs; 5,000 dependents of one owner have
// their actions after 6 ms, on one slow core.
//
// # Failure modes
//
// A restart loses nothing: pending work is in the objects' finalizers, and what
// was known of absent owners is read again. An action without an answer holds its
// object until restart. An action whose effect is not seen within Config.Settle is
// followed by a live read. Failures are tried again with doubling pauses. A type
// that is not listed holds the end of foreground deletions for
// Config.ForegroundPatience. An owner whose type is not served is unknown as long
// as that lasts; one of another API server may be longer: see quarantine.go. An
// aggregated API server that ignores preconditions can lose
// what changes between the read and the DELETE.
//
// # Sources
//
// The rules are those of k8s.io/kubernetes/pkg/controller/garbagecollector
// (v1.36: attemptToDeleteItem, classifyReferences, processDeletingDependentsItem,
// attemptToOrphanWorker), what DELETE does to finalizers those of
// k8s.io/apiserver/pkg/registry/generic/registry/store.go
// (deletionFinalizersForGarbageCollection). Faults that are not repeated:
// kubernetes issues 26120, 60037, 77081, 87668, 131307, 142039.
package cascade
