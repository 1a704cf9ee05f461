// Package vm runs this repository's tests on the kernels that Debian ships, in
// a machine emulated by qemu: what a test shows on the kernel of the machine at
// hand says little about the one that nodes run.
//
// # How
//
// Machines are amd64 or arm64. A [Kernel] is taken from Debian's archive by apt,
// unpacked into a cache and never installed. [Builder.Build] writes an initramfs
// with everything a run needs: test binaries, containerd, runc and mkfs with their
// shared libraries, busybox (from this machine, or from Debian's packages for
// arm64), the kernel's modules, and a guest (tools/vm/guest) that is the machine's
// first process. [Machine.Run] boots it. There is no network and, unless [Machine.Reboot] boots it twice with
// one, no disk; cgroup v2 is the only hierarchy. Two serial ports lead out: what the
// kernel and the tests print goes to the first; the second carries the guest's
// [report.Report], so that no line of the console can be mistaken for a result.
//
// # Invariants
//
//   - A run passes only if the guest reported the end of every suite, each with
//     exit status 0; one without suites only if every kernel program that belongs
//     on the kernel was attached. A machine that panics, hangs, or goes away has failed, and
//     the error ends with the tail of its console.
//   - Nothing of a run stays but the log and the cached kernel (and, of one ended
//     by SIGKILL, its temporary directories: ebb-vm-*). qemu dies with
//     the process that started it.
//
// # Limits
//
// Emulation in software (tcg) is used even where hardware help is there: it runs
// everywhere and behaves the same. It is about ten times slower than the machine
// itself, so no figure of time taken inside says anything. Machines are made on
// amd64 alone: nobody has tried another one.
//
// Sources: Documentation/driver-api/early-userspace/buffer-format.rst and
// Documentation/admin-guide/kernel-parameters.txt of Linux, qemu-system(1),
// ld.so(8), modprobe(8), apt-get(8).
package vm
