// Package unload takes everything that ebb-agent has left on a node away again, so
// that the node is as if the agent had never been there: but for the images that it
// has removed, and for kernel modules and filesystems (overlay, bpffs) that a node
// with containers has anyway.
//
// # What there is
//
//   - programs and maps in the kernel, by their pins below kernel.pinDirectory,
//   - in containerd: leases, views, and images whose names are away in a removal that
//     was interrupted. Those get their names back first,
//   - the state file, what was moved aside of damaged ones, and their directory,
//   - the empty directory in the kubelet's, by which the agent's pod saw how full its disk is,
//   - the lock file and its directory.
//
// # What is promised
//
// It never works beside an agent: it takes the agent's own lock first, and those of
// pins and state file, which older agents have, too. One step's failure does not keep
// it from the others; all errors are returned. It may be run again at any time, and be
// killed at any moment: each step is idempotent, and the lock's file goes last. Of
// directories only what is known to be ebb's is removed, never a whole tree: a
// configuration may name any directory.
//
// With Root it works on the node from inside of a container that has the node's root
// directory mounted: paths are the node's then, and the process cannot go back.
//
// # Failure modes
//
// containerd that does not answer: what ebb left there stays, which the error says.
// Leases end by themselves after a day, and an image whose names are away goes
// then, as it was about to. Nothing needs that to be done by hand.
package unload
