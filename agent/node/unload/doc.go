// Package unload removes everything that ebb-agent has left on a node, as if the agent had never
// been there. Exceptions are the images that it has removed, and kernel modules and filesystems
// (overlay, bpffs) that a node with containers has anyway.
//
// # What there is
//
//   - programs and maps in the kernel, by their pins below kernel.pinDirectory,
//   - in containerd: leases, views, and images whose names an interrupted removal has withdrawn.
//     The images get their names back first,
//   - the state file, damaged ones that were moved aside, and their directory,
//   - the admin socket of an agent that was killed,
//   - the empty directory in the kubelet's, through which the agent's pod saw how full the
//     kubelet's disk is,
//   - the lock file and its directory.
//
// # Guarantees
//
// [Run] never works beside an agent: it takes the agent's own lock first, and those of pins and
// state file, which older agents have, too. If the pins cannot be removed, it stops. After that,
// the failure of one step does not keep it from the others, and all errors are returned. It may be
// run again at any time, and be killed at any moment: each step is idempotent, and the lock file is
// removed last. In directories it removes only what is known to be ebb's, never a whole tree: a
// configuration may name any directory.
//
// With Root it works on the node from inside a container that has the node's root directory
// mounted. Paths are then the node's, and the process cannot leave that root.
//
// # Failure modes
//
// If containerd does not answer, what ebb left there stays, and the error reports it. Leases end by
// themselves after a day. An image whose names are withdrawn is then deleted, as the interrupted
// removal intended. None of this needs manual work.
package unload
