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

// arch is a kind of machine. Debian and Go call those that are here the same.
type arch struct {
	name       string
	qemu       string
	hardware   []string // of qemu's arguments
	parameters []string // of the kernel
	reportPort []string // the serial port for the report, to a file whose name follows
}

var arches = map[string]arch{
	"amd64": {
		name: "amd64", qemu: "qemu-system-x86_64",
		hardware: []string{
			// A fifth level of page tables is one more to walk in software. CMPXCHG16B as
			// qemu 7.2 emulates it now and then leaves part of RAX in the flags: the kernel
			// ends in a double fault in kmalloc, which uses it if the CPU has it.
			"-machine", "q35", "-global", "ICH9-LPC.disable_s3=0", "-cpu", "max,la57=off,cx16=off",
		},
		parameters: []string{
			"console=ttyS0",
			"no_timer_check", // which takes an emulated timer for broken when the host is busy
		},
		reportPort: []string{"-serial", "file:"},
	},
	"arm64": {
		name: "arm64", qemu: "qemu-system-aarch64",
		// As nodes that can be rented have it, with LSE atomics.
		hardware:   []string{"-machine", "virt,gic-version=3", "-cpu", "neoverse-n1"},
		parameters: []string{"console=ttyAMA0"},
		// The machine has one port of its own; the kernel has the driver of this one
		// built in.
		reportPort: []string{"-device", "pci-serial,chardev=report", "-chardev", "file,id=report,path="},
	},
}

// Arch is the kind of machine that a kernel of Debian's is for: its name ends in it.
func Arch(kernel string) string { return kernel[strings.LastIndex(kernel, "-")+1:] }

func archOf(kernel string) (arch, error) {
	a, ok := arches[Arch(kernel)]
	if !ok {
		return a, fmt.Errorf("kernel %q is for no known kind of machine", kernel)
	}
	return a, nil
}

// apt asks for the packages of one kind of machine.
type apt struct{ options []string }

// aptFor returns this machine's own apt; for other kinds one with the same sources
// and keys, but lists of its own below dir, so that this machine need not be told
// of another architecture.
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

// fresh does something by apt's lists, and once more by new ones if that fails: fresh
// machines have no lists; old lists name versions that are gone.
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
