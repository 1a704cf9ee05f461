// Package leases collects what kubelets leave behind in kube-node-lease: a Lease has its
// Node as owner, and goes with it; one that was written while the Node was not there has
// none, and stays forever.
//
// Such a Lease goes only if all of this holds: nobody owns it, it names no other holder,
// all Nodes are known and its own is not among them, that has been so for a quarantine
// within which nobody renewed it, and a live read of the Node, just before, says that
// there is none. What is not known, of Nodes as of Leases, keeps all.
//
// Leases of elections are reported if they have expired for longer than Config allows. One is
// deleted only if Config says so, and nobody holds it, or a live read says that the Pod that
// held it is gone.
// The Leases by which API servers know each other, and ebb's own, are nobody's business.
package leases
