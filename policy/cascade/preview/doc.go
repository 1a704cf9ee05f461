// Package preview answers what a deletion would do, before anybody deletes: which
// objects would go, which would be orphaned, what stays and why, and what would be
// left waiting.
//
// [Of] takes what is known of a cluster, a target and a propagation policy. A small
// model of the API server (what DELETE and patches do to references and
// finalizers: [gc.Policy.Finalizers], [gc.Action.Apply]) drives the real
// [cascade.Collector] until nothing moves. So there are no rules here that could
// differ from those of the controller.
//
// # What is simulated
//
//  1. The world settles: what the collector had to do anyway is done, and counted
//     as Pending. It is no part of the answer.
//  2. The target is deleted, and everything follows that follows from it.
//  3. The finalizers of others that hold what is being deleted (also what was so
//     before, below the target) are taken off, as if those who serve them did so,
//     again and again until nothing moves. What becomes of an object only then is
//     its Then.
//
// # The tree
//
// The dependents of an object that goes, or waits, are its children, by kind,
// namespace and name. An object with several owners in the tree is told where it is
// met first; elsewhere it stands again without its own dependents. Whatever the
// deletion changes is in the tree, in Released (an owner above the target whose
// deletion waited for it), or in one of the remainders ([More]) and in the counts.
//
// # Invariants
//
// Nothing is sent, read or changed; the same world gives the same answer. The tree
// is bounded by Limits, the counts are not. An owner that is not among the objects
// counts as absent only if its type was listed; that it was is asked back in Asked,
// because lists of two types are not of one moment. Unknown owners keep their
// dependents.
//
// # Failure modes
//
// A world that changes meanwhile makes the answer wrong, as with any preview. Types
// that could not be listed are the caller's to tell: their objects are missing as
// dependents, and unknown as owners. Controllers other than the collector are not
// simulated: what they make anew, what a namespace takes with it, or a
// CustomResourceDefinition, is counted as a Note only. Grace periods are taken to be
// over.
package preview
