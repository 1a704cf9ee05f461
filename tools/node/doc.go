// Package node makes throwaway container nodes: a loopback filesystem of a
// chosen kind and size with a private containerd on it, images built on the
// spot and containers that really run. Demos, tests and benchmarks fill and
// break them; nothing else on the machine notices.
//
// # What a node is
//
// Everything a node owns lies below one directory, BASE/NAME:
//
//	record.json      who made the node and when; written before anything else
//	lock             held (flock) by the process that owns the node
//	disk.img         the sparse file behind the loop device
//	mnt/             the loopback filesystem; containerd's root is below it
//	run/             containerd's state, its temporary files, runc's state
//	logs/            output of containers and pods
//	containerd.sock, config.toml, containerd.log
//
// and below one cgroup, /ebb-node-NAME-HASH, in every hierarchy. Nothing is kept in
// memory only, so whatever a node has made can be found again from its name:
// processes by cgroup or by the socket on their command line, mounts by their
// path, loop devices by their backing file. That is what makes cleaning up
// after a kill -9 possible, at whatever step it came.
//
// # Invariants
//
//   - A node belongs to the process that holds its lock. [Clean] finishes off
//     exactly those nodes whose lock it can take.
//   - A process is signalled only through a pidfd, and only after it was found
//     to be the node's once the pidfd was open: no pid is trusted across time.
//   - Nothing is deleted below a directory that still has a mount in it.
//   - A containerd that the package did not start is never spoken to.
//   - What is not a node's is left alone, with one exception: tracefs and bpffs
//     are mounted if they are not, and stay mounted. Other processes may hold
//     pins in a bpffs from the moment it exists, and every ordinary machine has
//     both mounted from boot.
//
// # Failure modes
//
// An error of [Start] carries the end of containerd's log, and what was made
// until then has been removed. [Node.Close] goes on after an error and returns
// all of them; what it left is still on record, for the next Clean.
//
// containerd is started with restrict_oom_score_adj, because lowering
// oom_score_adj needs CAP_SYS_RESOURCE, which machines such as containers and
// small VMs do not always grant: without it every sandbox dies at its start.
// CRI's streaming server cannot be switched off; it listens on a loopback port.
//
// Sources: loop(4), flock(2), pidfd_open(2), cgroups(7), containerd's
// docs/man/containerd-config.toml.5.md.
package node
