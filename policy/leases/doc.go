// Package leases collects Leases that kubelets leave behind in kube-node-lease. A Lease
// normally has its Node as owner and is deleted with it. A Lease that was written while its
// Node did not exist has no owner and stays forever.
//
// Such a Lease is deleted only if all of this holds:
//
//   - it has no owner, and names no other holder;
//   - all Nodes are known, and its Node is not among them;
//   - its Node has been missing for a quarantine, in which the Lease was not renewed;
//   - a live read of the Node, just before, finds that it does not exist.
//
// While Nodes or Leases are not fully known, all Leases are kept.
//
// Leases of elections are reported if they have expired for longer than Config allows. Such a
// Lease is deleted only if Config allows it, and only if it has no holder or a live read finds
// that the Pod that held it is gone. Leases by which API servers know each other, and ebb's
// own, are never touched.
package leases
