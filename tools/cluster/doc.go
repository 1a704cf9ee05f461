// Package cluster makes throwaway machines: namespaces in which a script sets up
// a whole Kubernetes node with its control plane, as it would on a machine of its
// own, and from which nothing gets out. deploy/cluster/e2e runs in one.
//
// # What a machine is
//
// [Run] starts a command in mount, process, network, IPC and UTS namespaces of
// their own. The command sees the machine's programs, but
//
//	/      read-only
//	/var   an empty ext4 filesystem on a loop device: what fills it fills a disk
//	/etc   a copy
//	/run, /tmp, /sys/fs/bpf   empty
//	/proc  its own processes; kernel settings that a kubelet makes are files
//
// and one network interface, node0, with [NodeIP]. Config.Out is the one directory
// through which something comes out. Its cgroups lie below one, /ebb-cluster-NAME-HASH,
// in every hierarchy.
//
// # Invariants
//
//   - Nothing outlives the process that called Run, whatever ended it: the kernel
//     kills the first process of the machine with it (PR_SET_PDEATHSIG), all others
//     with that one (pid_namespaces(7)), and mounts, loop device, kernel programs'
//     pins and interfaces with the last of them.
//   - What the kernel does not take away, cgroups and BASE/NAME, is found by the
//     directory, which is locked by its owner and by the machine's first process: it is free
//     once both are gone. [Clean] removes exactly those that are free, and so does
//     the next Run of that name.
//
// # Failure modes
//
// An error of the setup is printed by the machine's first process, which then exits
// with [SetupFailed]. Removing a cgroup can take a moment after the last process in
// it; Run waits for that.
//
// Not apart from the machine are time, kernel settings that belong to no namespace
// (which is why / and /proc/sys are as above), and the cgroup hierarchies, of which
// the command sees all.
//
// Sources: namespaces(7), pid_namespaces(7), mount_namespaces(7), prctl(2), loop(4).
package cluster
