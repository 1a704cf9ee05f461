package bpf

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// rootType is a type that the kernel has if a filesystem is built in.
var rootType = map[string]string{
	"overlay": "ovl_fs", "ext4": "ext4_sb_info", "xfs": "xfs_mount", "btrfs": "btrfs_fs_info",
}

// absentError says that a filesystem is neither built in nor loaded.
type absentError struct{ module string }

func (e *absentError) Error() string {
	return fmt.Sprintf("module %s is not loaded; its programs come with it", e.module)
}

func (e *absentError) Unwrap() error { return ErrUnsupported }

// waits returns what a program waits for, if that is why it is not attached.
func waits(why error) *absentError {
	var absent *absentError
	errors.As(why, &absent)
	return absent
}

// present returns an absentError if o has to wait for its filesystem. An absent
// that is not nil says so in place of the kernel.
func (o *object) present(types *btf.Cache, absent func(string) bool) error {
	if absent == nil {
		absent = func(module string) bool { return !builtIn(types, module) && !moduleLive(module) }
	}
	if o.needs != "" && absent(o.needs) {
		return &absentError{o.needs}
	}
	return nil
}

// builtIn is false, too, where the kernel's types cannot be read: loading will
// say why.
func builtIn(types *btf.Cache, module string) bool {
	spec, err := types.Kernel()
	if err != nil {
		return true
	}
	var found *btf.Struct
	return spec.TypeByName(rootType[module], &found) == nil
}

// moduleLive: before that a module's tracepoints cannot be attached to
// (btf_try_get_module). One that is built in has no such file.
func moduleLive(module string) bool {
	state, err := os.ReadFile("/sys/module/" + module + "/initstate")
	return err == nil && strings.TrimSpace(string(state)) == "live"
}

// requestOverlay has the kernel load overlayfs, if it is a module, as a mount of
// one would: with the host's modprobe, from whatever namespace (get_fs_type, in
// fs/filesystems.c). A container runtime does the same before its first
// container, which could otherwise begin and end before the programs that see it
// are there. present tells a kernel that has none from one that refuses.
func requestOverlay() {
	if fd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC); err == nil {
		unix.Close(fd)
	}
}

// arrived tells whether a module that was absent has come.
func (p *pins) arrived(module string) bool {
	if p.absent != nil {
		return !p.absent(module)
	}
	return moduleLive(module)
}
