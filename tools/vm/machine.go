package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/tools/process"
	"github.com/ebb-agent/ebb/tools/vm/report"
)

// Machine is one boot of one kernel.
type Machine struct {
	QEMU      string // program; if "", the one for Arch in PATH
	Arch      string // amd64 if ""
	Kernel    string
	Initramfs string
	Order     report.Order
	Disk      string // raw image of the first virtio disk; none if ""

	CPUs      int
	MemoryMiB int
	// Parameters are added to the default kernel parameters.
	Parameters []string
	Timeout    time.Duration // for the whole run

	Console io.Writer // receives the machine's output as it is printed
	Log     string    // file with the same output
}

// ErrHung is the error for a machine that did not end in time.
var ErrHung = errors.New("the machine did not end in time")

// kernelParameters make a machine that is fast, prints little, and ends on a panic or
// an oops.
var kernelParameters = []string{
	"loglevel=4",
	"panic=-1", "oops=panic", // reboots at once, which ends qemu
	"cgroup_no_v1=all",
	"mitigations=off", // protects tenants, of which there is one; slow if each jump is emulated
	"random.trust_cpu=on",
}

// arguments returns qemu's arguments, without the program's name.
func (m Machine) arguments(kind arch, reportFile string) []string {
	port := slices.Clone(kind.reportPort)
	port[len(port)-1] += reportFile
	var disk []string
	if m.Disk != "" {
		// Data that the machine has not flushed is lost at its reset, whatever the host
		// caches. So a flush need not reach the host's disk.
		disk = []string{"-drive", "if=virtio,format=raw,cache=unsafe,file=" + m.Disk}
	}
	return slices.Concat(kind.hardware, []string{
		// Only requested devices: no network, no screen.
		"-nodefaults", "-no-user-config", "-nographic", "-monitor", "none", "-nic", "none",
		"-no-reboot", // a panic reboots, and so ends qemu
		// One thread runs all CPUs in turn. With one thread each, a CPU sometimes runs
		// code that another CPU has just patched (a trampoline attached while the
		// function runs). The 6.12 kernel then oopses at a breakpoint that is no longer
		// there. Instead, several machines run side by side.
		"-accel", "tcg,thread=single",
		"-smp", strconv.Itoa(m.CPUs), "-m", strconv.Itoa(m.MemoryMiB) + "M",
		"-kernel", m.Kernel, "-initrd", m.Initramfs, "-append", strings.Join(slices.Concat(kind.parameters, kernelParameters, m.Parameters), " "),
		"-serial", "stdio",
	}, port, disk)
}

// Run boots the machine, waits for its end and returns the guest's report. The error is
// nil if every suite passed. Otherwise it names the failures, or, if the machine broke
// down, ends with the tail of the console.
func (m Machine) Run(ctx context.Context) (report.Report, error) {
	dir, err := os.MkdirTemp("", "ebb-vm-")
	if err != nil {
		return report.Report{}, fmt.Errorf("run machine: %w", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "report")
	ended := m.boot(ctx, file)
	if ctx.Err() != nil {
		return report.Report{}, fmt.Errorf("run machine: %w", ctx.Err())
	}
	r, err := readReport(file)
	if err == nil {
		err = r.Verdict(m.Order)
	}
	// A complete report decides. The exit of qemu matters only if the report is
	// incomplete.
	if err == nil || errors.Is(err, report.ErrFailed) {
		return r, err
	}
	return r, fmt.Errorf("run machine: %w%s", errors.Join(ended, err), process.Tail(m.Log))
}

// diskBytes is the size of the sparse disk that [Machine.Reboot] makes.
const diskBytes = 2 << 30

// ErrNotReset is the error for a machine that completed its order instead of being
// reset.
var ErrNotReset = errors.New("the machine was not reset")

// Reboot boots the machine twice with one new disk. A suite must reset the machine
// during the first boot. The report is that of the second boot.
func (m Machine) Reboot(ctx context.Context) (report.Report, error) {
	dir, err := os.MkdirTemp("", "ebb-vm-")
	if err != nil {
		return report.Report{}, fmt.Errorf("reboot machine: %w", err)
	}
	defer os.RemoveAll(dir)
	m.Disk = filepath.Join(dir, "disk")
	if err := errors.Join(os.WriteFile(m.Disk, nil, 0o600), os.Truncate(m.Disk, diskBytes)); err != nil {
		return report.Report{}, fmt.Errorf("reboot machine: %w", err)
	}
	first := m
	first.Log += ".first"
	r, err := first.Run(ctx)
	if err == nil {
		err = ErrNotReset
	}
	if !errors.Is(err, report.ErrNoVerdict) || errors.Is(err, ErrHung) || r.Running == "" {
		return r, fmt.Errorf("first boot: %w", err)
	}
	return m.Run(ctx)
}

// boot runs qemu to its end.
func (m Machine) boot(ctx context.Context, reportFile string) error {
	log, err := os.Create(m.Log)
	if err != nil {
		return err
	}
	defer log.Close()
	timed, cancel := context.WithTimeoutCause(ctx, m.Timeout, ErrHung)
	defer cancel()
	kind, err := archOf(cmp.Or(m.Arch, "amd64"))
	if err != nil {
		return err
	}
	program := cmp.Or(m.QEMU, kind.qemu)
	cmd := exec.CommandContext(timed, program, m.arguments(kind, reportFile)...)
	out := &cleaned{w: io.MultiWriter(log, m.Console)}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	if timed.Err() != nil {
		return fmt.Errorf("%w: %s", context.Cause(timed), m.Timeout)
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", program, err)
	}
	return nil
}

func readReport(file string) (report.Report, error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) { // qemu ended before it opened the file
		return report.Report{}, nil
	}
	if err != nil {
		return report.Report{}, err
	}
	defer f.Close()
	return report.Read(f)
}
