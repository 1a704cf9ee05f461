// Package pods collects Pods that nobody will end or wants any more, as the pod-garbage-
// collector-controller of the kube-controller-manager does: those that ended, beyond what
// is to be kept; those bound to Nodes that are gone; those that terminate on a Node that
// is out of service, or that never had one.
//
// Invariants:
//   - A Pod that runs goes only if a live read found its Node absent, and no longer
//     ago than the quarantine; or if somebody deleted it already.
//   - What rests on a count rests on complete lists: while Pods cannot be read, none goes
//     for being one too many; while Nodes cannot be read, none goes for its Node.
//   - A force deletion that cannot help is not asked for: finalizers hold the Pod, and its
//     grace period is zero already.
//
// Which Pods are too many is kept up to date in heaps, one pair for the cluster and each
// namespace and owner with a limit: a change costs the logarithm of what ended. A Pod that
// runs is kept for the index by Node alone.
package pods
