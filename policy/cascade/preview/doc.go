// Package preview answers what a deletion would do, before anybody deletes: which objects
// would go, which would be orphaned, what stays and why, and what would be left waiting.
//
// [Of] takes what is known of a cluster, a target and a propagation policy. A small model
// of the API server (what DELETE and patches do to references and finalizers:
// [gc.Policy.Finalizers], [gc.Action.Apply]) drives the real [cascade.Collector] until
// nothing moves. So there are no rules here that could differ from those of the controller.
//
// # What is simulated
//
//  1. The world settles: what the collector had to do anyway is done, and counted as
//     Pending. It is no part of the answer.
//  2. The target is deleted, and everything follows that follows from it.
//  3. The finalizers of others that hold what is being deleted are removed, as if those
//     who serve them did so, again and again until nothing moves. That includes finalizers
//     that were there before, below the target. What becomes of an object only then is its
//     Then.
//
// # Invariants
//
// Nothing is sent, read or changed; the same world gives the same answer. The tree is
// bounded by [Limits], the counts are not. Unknown owners keep their dependents.
//
// # Failure modes
//
// If the world changes meanwhile, the answer is wrong, as with any preview. The caller
// reports types that could not be listed: their objects are missing as dependents, and
// unknown as owners. Controllers other than the collector are not simulated. What they make
// anew, and what a namespace or a CustomResourceDefinition takes with it, is only counted
// as a Note. Grace periods count as over.
package preview
