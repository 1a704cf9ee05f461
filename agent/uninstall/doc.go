// Package uninstall removes ebb from a cluster, in two steps. [Check] runs before, and reports
// whether ebb may be uninstalled. [Unload] runs after, and removes what ebb has left on the nodes.
// Both are made for the hooks of a Helm chart, for a plain Job and for a person with a kubeconfig.
//
// # Check
//
// Check changes nothing. It refuses if the cluster would be left with one of these:
//
//   - objects that wait for a garbage collector (finalizers orphan and foregroundDeletion)
//   - a kube-controller-manager that does not collect garbage
//   - nodes whose kubelet leaves images to ebb (imageGCHighThresholdPercent: 100)
//
// ebb cannot detect another garbage collector reliably, so the user has to state it
// (OtherCollector). Check also refuses if it could not read some of this. Each refusal names the
// fixes, and the flags that accept the finding as it is.
//
// # Unload
//
// One DaemonSet runs ebb-agent unload on each node, in an init container. A node is clean when that
// container has succeeded. One list reads all pods, however many nodes there are.
//
// Before that, Unload deletes ebb's objects in its namespace that have lost their owner, because
// ebb-controller may have been the only garbage collector. For the same reason, Unload deletes the
// DaemonSet's pods itself.
//
// All state is in the API server. An interrupted run leaves the DaemonSet, and the next run resumes
// it, within 15 minutes, and unless ebb may have been installed again since. Unload has a deadline,
// and names the nodes that are not clean by then. Nodes that were deleted since need no cleaning.
//
// # What is bounded
//
// Answers are bounded by size, lists by pages, requests by time, attempts by number. Check asks a
// few kubelets at a time, and all of them within three minutes. The DaemonSet's controller decides
// how many nodes start at a time. Text from other programs is cleaned before it is printed.
// Redirects are not followed, and no kubelet gets credentials that have a right anywhere else: a
// node must not choose what is requested in the name of this program.
package uninstall
