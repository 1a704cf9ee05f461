//go:build linux

// Command guest is the first process of a test machine (see package vm). It prepares
// the machine for containers, runs the ordered suites one after the other, reports on
// the second serial port, and ends the machine.
//
// It runs as two processes. The first one only reaps: orphans of shims and tests become
// its children. If it also started commands, its wait for any child would take their
// exit status. So a child does the work.
//
// An error is printed and ends the machine without the last line of a report, which the
// reader treats as a failure.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/tools/vm/report"
)

// reportPort is the second serial port. On amd64 the console is the first port of the
// same kind.
var reportPort = map[string]string{"amd64": "/dev/ttyS1", "arm64": "/dev/ttyS0"}[runtime.GOARCH]

func main() {
	if os.Getpid() == 1 {
		if err := boot(); err != nil {
			fmt.Fprintln(os.Stderr, "guest:", err)
		}
		powerOff()
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
}

// boot makes the machine and waits for the worker, while it reaps all other children.
func boot() error {
	if err := makeMachine(); err != nil {
		return err
	}
	worker, err := os.StartProcess("/proc/self/exe", []string{"guest"}, &os.ProcAttr{
		Env:   environment,
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return fmt.Errorf("wait for worker: %w", err)
		case pid == worker.Pid:
			return nil
		}
	}
}

// powerOff does not return. It requests a reboot, which ends qemu: qemu 7.2 misses a
// power-off after the machine has been suspended. If the kernel refuses, the first
// process exits, and the resulting panic ends the machine as well.
func powerOff() {
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART); err != nil {
		fmt.Fprintln(os.Stderr, "guest: end:", err)
		os.Exit(1)
	}
	select {}
}

var environment = []string{
	"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TMPDIR=/tmp",
}

func work() error {
	order, err := readOrder()
	if err != nil {
		return err
	}
	out, err := openReport()
	if err != nil {
		return err
	}
	defer out.Close()
	if err := loadModules(order.Modules); err != nil {
		return err
	}
	kernel, err := describeKernel()
	if err != nil {
		return err
	}
	if err := report.Write(out, report.Line{Kernel: &kernel}); err != nil {
		return err
	}
	programs, err := tryPrograms()
	if err != nil {
		return err
	}
	if err := report.Write(out, report.Line{Programs: programs}); err != nil {
		return err
	}
	for _, s := range order.Suites {
		if err := report.Write(out, report.Line{Begin: s.Name}); err != nil {
			return err
		}
		result := runSuite(s)
		if err := report.Write(out, report.Line{Result: &result}); err != nil {
			return err
		}
	}
	if err := report.Write(out, report.Line{End: true}); err != nil {
		return err
	}
	return drain(out)
}

// drain waits until the port has sent everything, because the end of the machine loses the
// rest. A close is not enough: it waits only as long as a port of that speed takes, and qemu
// can be kept from the CPU for longer.
func drain(port *os.File) error {
	for {
		state, err := unix.IoctlGetInt(int(port.Fd()), unix.TIOCSERGETLSR)
		if err != nil {
			return fmt.Errorf("drain report: %w", err)
		}
		if state&1 != 0 { // TIOCSER_TEMT, include/uapi/linux/serial.h
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

func readOrder() (report.Order, error) {
	var order report.Order
	text, err := os.ReadFile(report.OrderFile)
	if err == nil {
		err = json.Unmarshal(text, &order)
	}
	if err != nil {
		return order, fmt.Errorf("read order: %w", err)
	}
	return order, nil
}

// openReport opens the second serial port. It turns off echoing and rewriting by the
// line discipline.
func openReport() (*os.File, error) {
	f, err := os.OpenFile(reportPort, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("open report: %w", err)
	}
	settings, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err == nil {
		settings.Oflag &^= unix.OPOST
		settings.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG
		err = unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, settings)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("set up %s: %w", reportPort, err)
	}
	return f, nil
}
