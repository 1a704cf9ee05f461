// Package uninstall is the end of ebb in a cluster. [Check] says whether it may go,
// before it does; [Unload] takes what it has left on the nodes away, afterwards.
// Both are made for the hooks of a Helm chart, for a plain Job and for a person with a
// kubeconfig alike.
//
// # Check
//
// It writes nothing. It refuses while the cluster would be left with something that
// nobody looks after:
//
//   - objects that are being deleted and wait for a garbage collector (finalizers
//     orphan and foregroundDeletion). Whether another one than ebb-controller is at work
//     cannot be seen from outside for sure: the kube-controller-manager tells nobody which
//     of its controllers run, and an answer to a trial would say nothing while
//     ebb-controller runs, too. So that has to be stated (OtherCollector). Without it
//     Check waits a while for ebb-controller to be done, and refuses if anything is left.
//   - a kube-controller-manager that can be seen (as the static pods that kubeadm makes)
//     and was told not to collect. One that was told to is only a note: the pod may be
//     older than its manifest.
//   - nodes whose kubelet leaves images to ebb (imageGCHighThresholdPercent: 100).
//
// What could not be seen, a type that may not be listed or a kubelet that does not
// answer, is unknown, and unknown refuses, too. Each refusal says what was found, names
// the ways out, and can be overruled by naming what is to be left as it is.
//
// # Unload
//
// Nothing on a node can be removed from elsewhere, so that one pod for each node runs
// ebb-agent --unload there: made from a template, bound to the node by its name (no
// scheduler has a say), with every taint tolerated. Before that, what was ebb's in its
// namespace and has lost its owner is deleted: DaemonSets and Deployments go in the
// background, which means by a garbage collector, and ebb-controller may have been the
// only one.
//
// All state is in the API server: pods are known by a label, and a run begins by
// deleting those of earlier runs. So it may be killed and begun again at any moment, and
// run on a cluster where all is done. A node that does not answer in time is reported
// with the command for later, and holds up no other. No pod of it outlives its
// deadline, even if nobody comes back to delete it (activeDeadlineSeconds).
//
// # Who owns what
//
// Check's and Unload's workers share nothing but what a mutex guards or a channel
// carries; none outlives the call.
//
// # What is bounded
//
// Answers by size, lists by pages, requests by time, attempts by number, work at a time
// by options; what is printed of names and messages of others by length, and cleaned.
// Redirects are not followed: /configz comes from a node, and a node must not choose
// what is asked with the credentials of this program.
//
// # Sources
//
// "API concepts" (metadata lists, paging, 410); "Owners and dependents"; Helm's
// documentation of hooks; k8s.io/kubernetes 1.36: pkg/registry/core/pod/strategy.go and
// rest/delete (a pod that is bound is deleted by its kubelet, or by a grace period of
// zero), pkg/kubelet/server (/configz).
package uninstall
