// Package vm runs this repository's tests on the kernels that Debian ships, in a machine
// emulated by qemu. Test results on the kernel of the present machine say little about the
// kernels of nodes.
//
// # How
//
// Machines are amd64 or arm64. apt downloads a [Kernel] from Debian's archive; it is unpacked into a
// cache and never installed. [Builder.Build] writes an initramfs with everything a run needs. It holds
// test binaries, the kernel's modules, and a guest (tools/vm/guest), which is the machine's first
// process. containerd, runc, mkfs with their shared libraries, and busybox come from this machine, or
// from Debian's packages for arm64. [Machine.Run] boots it. There is no network. There is no disk,
// unless [Machine.Reboot] boots the machine twice with one. cgroup v2 is the only hierarchy. The
// machine has two serial ports. The first gets the output of the kernel and the tests. The second
// carries the guest's [report.Report], so that no line of the console can be mistaken for a result.
//
// # Invariants
//
//   - A run passes only if the guest reported the end of every suite, each with exit status
//     0. A run without suites passes only if every kernel program that belongs on the kernel
//     was attached. A machine that panics, hangs, or disappears has failed, and the error
//     ends with the tail of its console.
//   - Only the log and the cached kernel remain after a run (and, after a SIGKILL, its
//     temporary directories: ebb-vm-*). qemu dies with the process that started it.
//
// # Limits
//
// Emulation in software (tcg) is used even if the machine has hardware virtualization: it
// works everywhere and in the same way. It is about ten times slower than the machine
// itself, so times measured inside are meaningless. Only amd64 hosts are supported: no other
// one has been tried.
//
// Sources: Documentation/driver-api/early-userspace/buffer-format.rst and
// Documentation/admin-guide/kernel-parameters.txt of Linux, qemu-system(1),
// ld.so(8), modprobe(8), apt-get(8).
package vm
