package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// Errors that callers may test for with errors.Is.
var (
	// ErrNotPermitted: the process lacks a capability; the text names it.
	ErrNotPermitted = errors.New("not permitted")
	// ErrUnsupported: the kernel lacks something; the text names it.
	ErrUnsupported = errors.New("not supported by this kernel")
	// ErrInUse: another process holds the pin directory.
	ErrInUse = errors.New("pin directory is in use by another process")
	// ErrNotAttached: the programs that keep the record could not be attached.
	ErrNotAttached = errors.New("programs are not attached")
	// ErrFull: there is no slot for another layer, or no room for another watermark.
	ErrFull = errors.New("no room left")
)

// errSwitchedOff is the reason for a concern that the options switch off.
var errSwitchedOff = errors.New("switched off")

// Capability is a Linux capability that loading and pinning need.
type Capability struct {
	Name, For string
	bit       uint
}

var needed = []Capability{
	{"CAP_BPF", "create maps and programs", unix.CAP_BPF},
	{"CAP_PERFMON", "trace the kernel", unix.CAP_PERFMON},
	{"CAP_SYS_ADMIN", "mount bpffs and trace modules", unix.CAP_SYS_ADMIN},
}

// classify adds the matching sentinel, and what is missing, to an error of the kernel.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNotPermitted), errors.Is(err, ErrUnsupported), errors.Is(err, ErrForeignPins):
		return err
	case lockedDown(err):
		return fmt.Errorf("%w (kernel lockdown: with confidentiality programs may not read the kernel's memory): %w", ErrUnsupported, err)
	case refusedByVerifier(err):
		return fmt.Errorf("%w (its verifier refuses a program): %w", ErrUnsupported, err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w (%s): %w", ErrNotPermitted, missingCapabilities(), err)
	case errors.Is(err, btf.ErrNotFound), errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}

// refusedByVerifier reports whether the verifier rejected a program, rather than the
// kernel refusing this process the load. Both errors are "permission denied", but only
// the verifier writes a log.
func refusedByVerifier(err error) bool {
	var refused *ebpf.VerifierError
	return errors.As(err, &refused) && len(refused.Log) > 0
}

// lockedDown reports, from the verifier's log, whether the kernel has withdrawn the
// helper bpf_probe_read_kernel. LOCKDOWN_BPF_READ_KERNEL does that; it is a part of
// confidentiality and not of integrity (security/security.c, bpf_base_func_proto in
// kernel/bpf/helpers.c). On a kernel that seems to lack the helper the loader uses
// bpf_probe_read, which is withdrawn as well.
func lockedDown(err error) bool {
	var refused *ebpf.VerifierError
	return errors.As(err, &refused) && slices.ContainsFunc(refused.Log, func(line string) bool {
		return strings.Contains(line, " bpf_probe_read") && (strings.Contains(line, "unknown func ") || strings.Contains(line, "cannot use helper "))
	})
}

// MissingCapabilities returns the needed capabilities that this process lacks.
// CAP_SYS_ADMIN implies the other two; before Linux 5.8 the other two do not exist.
func MissingCapabilities() (missing []Capability, err error) {
	has, err := capabilities()
	if err != nil {
		return nil, err
	}
	for _, c := range needed {
		if !has(c.bit) && !has(unix.CAP_SYS_ADMIN) {
			missing = append(missing, c)
		}
	}
	return missing, nil
}

// missingCapabilities describes the missing capabilities for an error.
func missingCapabilities() string {
	list, err := MissingCapabilities()
	switch {
	case err != nil:
		return "capabilities unknown: " + err.Error()
	case len(list) == 0:
		return "all capabilities are there: seccomp, an LSM or the machine below refuses"
	}
	var missing []string
	for _, c := range list {
		missing = append(missing, c.Name+" to "+c.For)
	}
	return "missing " + strings.Join(missing, ", ")
}

// lacks reports whether a capability is missing; false if that cannot be read.
func lacks(capability uint) bool {
	has, err := capabilities()
	return err == nil && !has(capability)
}

// capabilities returns a test for the effective capabilities of this process.
func capabilities() (has func(bit uint) bool, err error) {
	var caps [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return nil, err
	}
	return func(bit uint) bool { return caps[bit/32].Effective&(1<<(bit%32)) != 0 }, nil
}

// notAttached wraps why in ErrNotAttached; why is nil after Close.
func notAttached(why error) error {
	if why == nil {
		return ErrNotAttached
	}
	return fmt.Errorf("%w: %w", ErrNotAttached, why)
}
