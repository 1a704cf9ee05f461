// Package preview predicts what a deletion would do: which objects would be deleted, which
// would be orphaned, which stay and why, and which would be left waiting.
//
// [Of] takes what is known of a cluster, a target and a propagation policy. A small model
// of the API server (what DELETE and patches do to references and finalizers:
// [gc.Policy.Finalizers], [gc.Action.Apply]) drives the real [cascade.Collector] until
// nothing changes any more. So there are no rules here that could differ from those of the
// controller.
//
// # What is simulated
//
//  1. The world settles: the collector does what it had to do anyway. Those changes are
//     counted as Pending, and are not part of the answer.
//  2. The target is deleted, with all consequences.
//  3. Foreign finalizers on terminating objects are removed, as the controllers that serve
//     them would do, again and again until nothing changes any more. That includes
//     finalizers below the target that were there before. An outcome that changes only in
//     this step is in Node.Then.
//
// # Invariants
//
// Nothing is sent, read or changed; the same world gives the same answer. The tree is
// bounded by [Limits], the counts are not. Unknown owners keep their dependents.
//
// # Failure modes
//
// If the world changes after it was read, the answer is wrong, as with any preview. The
// caller reports types that could not be listed: their objects are missing as dependents,
// and unknown as owners. Controllers other than the collector are not simulated, so objects
// that they recreate are missing. Objects that are deleted with a Namespace or a
// CustomResourceDefinition are only counted, in a Note. Grace periods count as over.
package preview
