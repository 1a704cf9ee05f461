// Package uninstall is the end of ebb in a cluster. [Check] says whether it may go,
// before it does; [Unload] takes what it has left on the nodes away, afterwards.
// Both are made for the hooks of a Helm chart, for a plain Job and for a person with a
// kubeconfig alike.
//
// # Check
//
// It writes nothing. It refuses while the cluster would be left with objects that wait
// for a garbage collector (finalizers orphan and foregroundDeletion), with a
// kube-controller-manager that does not collect, or with nodes whose kubelet
// leaves images to ebb (imageGCHighThresholdPercent: 100). Whether another garbage
// collector is at work cannot be seen from outside, so it has to be stated
// (OtherCollector). What could not be read is unknown, and unknown refuses, too. Each
// refusal names the ways out, and can be overruled by naming what is to be left.
//
// # Unload
//
// One DaemonSet runs ebb-agent unload on each node, in an init container: a node is
// clean once that has ended well. All pods are read with one list, however many nodes
// there are. Before that, what was ebb's in its namespace and has lost its owner is
// deleted, since ebb-controller may have been the only garbage collector; for the same
// reason the DaemonSet's pods are deleted here.
//
// All state is in the API server: a run that was interrupted leaves the DaemonSet, and
// the next one goes on with it. A run that ended leaves a ConfigMap with the nodes that are
// clean, until all are; the next one makes the DaemonSet for the others. Neither is believed
// for long, nor once ebb may have been there again. The whole has a deadline; nodes that are
// not clean by then are named. Nodes that have been deleted meanwhile need nothing.
//
// # What is bounded
//
// Answers by size, lists by pages, requests by time, attempts by number. Kubelets are asked
// a few at a time, and all of them for some minutes; how many nodes begin at a time is for
// the DaemonSet's controller to say. What others say is cleaned before it is printed.
// Redirects are not followed, and no kubelet is sent credentials that are worth anything
// elsewhere: a node must not choose what is asked in the name of this program.
package uninstall
