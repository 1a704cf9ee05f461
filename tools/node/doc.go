// Package node makes throwaway container nodes: a loopback filesystem with a private
// containerd on it, images built on the spot, and containers that really run. Demos, tests
// and benchmarks fill and break nodes without affecting the rest of the machine.
//
// # What a node is
//
// Everything that a node owns is below one directory, BASE/NAME:
//
//	lock             held by the process that owns the node: see package owned
//	disk.img         the sparse file behind the loop device
//	mnt/             the loopback filesystem, with containerd's root
//	run/             containerd's state, its temporary files, runc's state
//	logs/            output of containers and pods
//	containerd.sock, config.toml, containerd.log
//
// and below one cgroup, /ebb-node-NAME-HASH, in every hierarchy. All of it can be found from
// the name: processes by cgroup or by a path of the node on their command line, mounts by
// path, loop devices by file. So [Clean] can remove a node that was killed at any moment.
//
// # Invariants
//
//   - A node belongs to the process that holds its lock. Clean removes the nodes whose lock
//     it can take, and no others.
//   - A process gets a signal only through a pidfd, and only if it is the node's process
//     after the pidfd was opened.
//   - Nothing is deleted below a directory that still has a mount in it.
//   - The package never talks to a containerd that it did not start.
//   - Nothing else changes, except that tracefs and bpffs are mounted. They remain mounted,
//     because other processes may soon have pins there.
//
// # Failure modes
//
// An error of [Start] includes the end of containerd's log; Start removes what it has made.
// [Node.Close] continues after an error and returns all errors; the next Clean removes the
// rest.
//
// containerd runs with restrict_oom_score_adj: without CAP_SYS_RESOURCE no sandbox would
// start otherwise. CRI's streaming server listens on a loopback port.
//
// Sources: loop(4), flock(2), pidfd_open(2), cgroups(7), containerd-config.toml(5).
package node
