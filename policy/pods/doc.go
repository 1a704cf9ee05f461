// Package pods collects Pods by the rules of the pod-garbage-collector-controller of the
// kube-controller-manager:
//
//   - Pods that ended, beyond the number to keep;
//   - Pods bound to Nodes that are gone;
//   - terminating Pods on a Node that is out of service;
//   - terminating Pods that were never bound to a Node.
//
// Invariants:
//   - A running Pod is deleted only if a live read found its Node absent, no longer ago than
//     the quarantine, or if its deletion was requested before.
//   - Decisions by count need complete lists. While Pods cannot be read, none is deleted
//     because there are too many. While Nodes cannot be read, none is deleted because of its
//     Node.
//   - A force deletion that cannot help is not requested: finalizers hold the Pod, and its
//     grace period is already zero.
//
// Heaps keep track of the Pods that are too many: one pair for the cluster, and one for each
// namespace and owner with a limit. A change costs the logarithm of the number of ended Pods.
// A running Pod is kept only for the index by Node.
package pods
