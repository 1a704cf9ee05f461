//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/tools/vm/report"
)

// mounts are the mounts of an ordinary node. bpffs and tracefs are not among them:
// tests check that they are mounted where they are missing.
var mounts = []struct{ source, target, kind, options string }{
	{"proc", "/proc", "proc", ""},
	{"sysfs", "/sys", "sysfs", ""},
	{"devtmpfs", "/dev", "devtmpfs", ""},
	{"devpts", "/dev/pts", "devpts", "gid=5,mode=620,ptmxmode=666"},
	{"tmpfs", "/dev/shm", "tmpfs", "mode=1777"},
	{"tmpfs", "/run", "tmpfs", "mode=755"},
	{"cgroup2", "/sys/fs/cgroup", "cgroup2", ""},
}

// makeMachine turns an unpacked initramfs into something like a node.
func makeMachine() error {
	if err := leaveRootfs(); err != nil {
		return fmt.Errorf("leave rootfs: %w", err)
	}
	for _, m := range mounts {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return fmt.Errorf("mount %s: %w", m.kind, err)
		}
		if err := unix.Mount(m.source, m.target, m.kind, 0, m.options); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.kind, m.target, err)
		}
	}
	for link, target := range map[string]string{
		"/dev/fd": "/proc/self/fd", "/dev/stdin": "fd/0", "/dev/stdout": "fd/1", "/dev/stderr": "fd/2",
	} {
		if err := os.Symlink(target, link); err != nil {
			return fmt.Errorf("link devices: %w", err)
		}
	}
	if err := unix.Sethostname([]byte("ebb-vm")); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	return raiseLoopback()
}

// leaveRootfs mounts the root filesystem on top of itself and makes that mount the
// root. The initial mount has no parent, and pivot_root(2), by which runc enters a
// container, fails on a mount without a parent.
func leaveRootfs() error {
	const top = "/top"
	return errors.Join(
		os.Mkdir(top, 0o755),
		unix.Mount("/", top, "", unix.MS_BIND, ""),
		unix.Chdir(top),
		unix.Mount(".", "/", "", unix.MS_MOVE, ""),
		unix.Chroot("."),
		unix.Chdir("/"),
	)
}

// raiseLoopback makes 127.0.0.1 work; the address comes with the interface.
func raiseLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("raise loopback: %w", err)
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("raise loopback: %w", err)
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("raise loopback: %w", err)
	}
	return nil
}

func loadModules(files []string) error {
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("load module: %w", err)
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		// A module for a CPU with other instructions returns ENODEV, and has a generic
		// substitute. A module may be loaded already as a dependency of an earlier one.
		if err != nil && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("load module %s: %w", name, err)
		}
	}
	return nil
}

func describeKernel() (report.Kernel, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return report.Kernel{}, fmt.Errorf("describe kernel: %w", err)
	}
	loaded, err := os.ReadFile("/proc/modules")
	if err != nil {
		return report.Kernel{}, fmt.Errorf("describe kernel: %w", err)
	}
	k := report.Kernel{Release: unix.ByteSliceToString(name.Release[:]), Version: unix.ByteSliceToString(name.Version[:])}
	for line := range strings.Lines(string(loaded)) {
		k.Modules = append(k.Modules, strings.Fields(line)[0])
	}
	slices.Sort(k.Modules)
	return k, nil
}

// tryPrograms attaches every kernel program once and returns the results. If loading
// fails, there is no list, and the error ends the machine.
func tryPrograms() (list []report.Program, err error) {
	const pins = "/run/ebb-programs"
	probes, err := bpf.Load(context.Background(), bpf.Options{PinDir: pins})
	if err != nil {
		return nil, err
	}
	for _, s := range probes.Status() {
		list = append(list, report.Program{
			Object: s.Object, Name: s.Name, AttachPoint: s.AttachPoint, Attached: s.Attached, Reason: cmp.Or(s.Reason, s.Idle), Working: s.Working(),
		})
	}
	return list, errors.Join(probes.Close(), bpf.Unload(pins), unix.Unmount(pins, 0))
}
