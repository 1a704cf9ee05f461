// Package cluster makes throwaway machines: namespaces in which a script sets up a whole
// Kubernetes node with its control plane, and from which nothing gets out.
// deploy/cluster/e2e runs in one.
//
// # What a machine is
//
// [Run] starts a command in its own mount, process, network, IPC and UTS namespaces. The
// command can run the programs of the real machine, but
//
//	/      is read-only
//	/var   is an empty ext4 filesystem on a loop device: what fills it fills a disk
//	/etc   is a copy
//	/run, /tmp and /sys/fs/bpf are empty
//	/proc  has only its processes; the kernel settings that a kubelet changes are files
//
// and one network interface, node0, with the address [NodeIP]. Files leave the machine only
// through the directory Config.Out. Its cgroups are below /ebb-cluster-NAME-HASH in every
// hierarchy.
//
// # Invariants
//
//   - Nothing outlives the process that called Run, however it ends. The kernel kills the
//     machine's first process with it (PR_SET_PDEATHSIG), and all others with the first one
//     (pid_namespaces(7)). The kernel releases mounts, loop device, pinned programs and
//     interfaces with the last process.
//   - The kernel leaves cgroups and BASE/NAME behind. The owner and the machine's first
//     process lock that directory. [Clean], and the next Run of that name, remove
//     directories that no process locks.
//
// # Failure modes
//
// The machine's first process prints an error of the setup and exits with [SetupFailed].
// Run waits until the last cgroup can be removed.
//
// Time, kernel settings without a namespace, and the cgroup hierarchies are shared with the
// real machine; the command sees all cgroups.
//
// Sources: namespaces(7), pid_namespaces(7), mount_namespaces(7), prctl(2), loop(4).
package cluster
