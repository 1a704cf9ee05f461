package bpf

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// rootType has, for each filesystem, a type that the kernel's BTF has if the
// filesystem is built in.
var rootType = map[string]string{
	"overlay": "ovl_fs", "ext4": "ext4_sb_info", "xfs": "xfs_mount", "btrfs": "btrfs_fs_info",
}

// absentError means that a filesystem is neither built in nor loaded.
type absentError struct{ module string }

func (e *absentError) Error() string {
	return fmt.Sprintf("module %s is not loaded; its programs come with it", e.module)
}

func (e *absentError) Unwrap() error { return ErrUnsupported }

// waits returns the absentError in why, the reason a program is not attached;
// nil if it waits for no module.
func waits(why error) *absentError {
	var absent *absentError
	errors.As(why, &absent)
	return absent
}

// present returns an absentError if o has to wait for its filesystem. If absent
// is not nil, it decides in place of the kernel.
func (o *object) present(types *btf.Cache, absent func(string) bool) error {
	if absent == nil {
		absent = func(module string) bool { return !builtIn(types, module) && !moduleLive(module) }
	}
	if o.needs != "" && absent(o.needs) {
		return &absentError{o.needs}
	}
	return nil
}

// builtIn reports whether a filesystem is built in. It is true, too, if the
// kernel's types cannot be read: loading then returns the reason.
func builtIn(types *btf.Cache, module string) bool {
	spec, err := types.Kernel()
	if err != nil {
		return true
	}
	var found *btf.Struct
	return spec.TypeByName(rootType[module], &found) == nil
}

// moduleLive reports whether a module has finished loading; before that its
// tracepoints cannot be attached to (btf_try_get_module). A filesystem that is
// built in has no such file.
func moduleLive(module string) bool {
	state, err := os.ReadFile("/sys/module/" + module + "/initstate")
	return err == nil && strings.TrimSpace(string(state)) == "live"
}

// requestOverlay makes the kernel load overlayfs, if it is a module, as a mount
// of an overlay would: with the host's modprobe, from any namespace
// (get_fs_type, in fs/filesystems.c). A container runtime does the same before
// its first container. Without this call that container could start and end
// before the programs that see it are attached. Errors are ignored: present
// finds out whether the kernel has overlayfs.
func requestOverlay() {
	if fd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC); err == nil {
		unix.Close(fd)
	}
}

// arrived reports whether a module that was absent is loaded now.
func (p *pins) arrived(module string) bool {
	if p.absent != nil {
		return !p.absent(module)
	}
	return moduleLive(module)
}
