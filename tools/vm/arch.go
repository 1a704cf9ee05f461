package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// arch is an architecture. Debian and Go use the same names for those here.
type arch struct {
	name       string
	qemu       string
	hardware   []string // arguments of qemu
	parameters []string // kernel parameters
	reportPort []string // serial port for the report; the file's name is appended
}

var arches = map[string]arch{
	"amd64": {
		name: "amd64", qemu: "qemu-system-x86_64",
		hardware: []string{
			// A fifth level of page tables is one more to walk in software. CMPXCHG16B as
			// qemu 7.2 emulates it sometimes leaves part of RAX in the flags. The kernel
			// uses it in kmalloc if the CPU has it, and ends in a double fault.
			"-machine", "q35", "-global", "ICH9-LPC.disable_s3=0", "-cpu", "max,la57=off,cx16=off",
		},
		parameters: []string{
			"console=ttyS0",
			"no_timer_check", // the check sees an emulated timer as broken if the host is busy
		},
		reportPort: []string{"-serial", "file:"},
	},
	"arm64": {
		name: "arm64", qemu: "qemu-system-aarch64",
		// Like nodes of cloud providers, with LSE atomics.
		hardware:   []string{"-machine", "virt,gic-version=3", "-cpu", "neoverse-n1"},
		parameters: []string{"console=ttyAMA0"},
		// The machine has only one port of its own. The kernel has a built-in driver for
		// this second one.
		reportPort: []string{"-device", "pci-serial,chardev=report", "-chardev", "file,id=report,path="},
	},
}

// Arch returns the architecture of a Debian kernel, whose name ends in it.
func Arch(kernel string) string { return kernel[strings.LastIndex(kernel, "-")+1:] }

func archOf(kernel string) (arch, error) {
	a, ok := arches[Arch(kernel)]
	if !ok {
		return a, fmt.Errorf("kernel %q is for no known kind of machine", kernel)
	}
	return a, nil
}

// apt runs apt for the packages of one architecture.
type apt struct{ options []string }

// aptFor returns this machine's own apt. For another architecture it returns one with the
// same sources and keys, but separate lists below dir, so that the architecture need not be
// added to this machine.
func aptFor(kind, dir string) (apt, error) {
	if kind == runtime.GOARCH {
		return apt{}, nil
	}
	lists, archives := filepath.Join(dir, "lists"), filepath.Join(dir, "cache")
	for _, d := range []string{filepath.Join(lists, "partial"), filepath.Join(archives, "archives", "partial")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return apt{}, err
		}
	}
	return apt{options: []string{
		"-o", "APT::Architecture=" + kind, "-o", "APT::Architectures::=" + kind,
		"-o", "Dir::State::lists=" + lists, "-o", "Dir::State::status=/dev/null", "-o", "Dir::Cache=" + archives,
	}}, nil
}

func (a apt) run(ctx context.Context, dir, command string, args ...string) (string, error) {
	return run(ctx, dir, command, append(append([]string{}, a.options...), args...)...)
}

// fresh calls do, and if it fails updates apt's lists and calls it again. A new machine has
// no lists; old lists name versions that no longer exist.
func (a apt) fresh(ctx context.Context, do func() error) error {
	err := do()
	if err == nil || ctx.Err() != nil {
		return err
	}
	if _, again := a.run(ctx, "", "apt-get", "update"); again != nil {
		return errors.Join(err, again)
	}
	return do()
}
