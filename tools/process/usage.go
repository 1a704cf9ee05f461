//go:build linux

package process

import (
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// MiB is a mebibyte.
const MiB = 1 << 20

// Usage is the resource usage of a process, as the kernel accounts it.
type Usage struct {
	At  time.Time
	CPU time.Duration // since its start, including ended threads
	// Context switches of the living threads: waits, and preemptions.
	Voluntary, Involuntary int64

	RSSBytes, PeakBytes int64  // the peak is the largest RSS since the start, or ResetPeak
	ReadBytes           uint64 // by read(2) and similar calls, from files and connections
}

// RSSMiB is the RSS in MiB.
func (u Usage) RSSMiB() float64 { return float64(u.RSSBytes) / MiB }

// PeakMiB is the peak in MiB.
func (u Usage) PeakMiB() float64 { return float64(u.PeakBytes) / MiB }

// Rate is the use of a process between two readings.
type Rate struct {
	CPUPercent  float64 // of one core
	PerSecond   float64 // context switches, of both kinds
	Voluntary   float64 // a second
	Involuntary float64 // a second
}

// Since returns the use between an earlier reading and this one.
func (u Usage) Since(before Usage) Rate {
	s := u.At.Sub(before.At).Seconds()
	r := Rate{
		CPUPercent:  100 * (u.CPU - before.CPU).Seconds() / s,
		Voluntary:   float64(u.Voluntary-before.Voluntary) / s,
		Involuntary: float64(u.Involuntary-before.Involuntary) / s,
	}
	r.PerSecond = r.Voluntary + r.Involuntary
	return r
}

// UsageOf reads the usage of any process.
func UsageOf(pid int) (Usage, error) {
	var u Usage
	// The CPU clock of a whole process, in nanoseconds, where /proc/PID/stat
	// has ticks: see clock_getcpuclockid(3). 2 is CPUCLOCK_SCHED.
	var spent unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &spent); err != nil {
		return u, fmt.Errorf("read its CPU clock: %w", err)
	}
	u.At, u.CPU = time.Now(), time.Duration(spent.Nano())
	threads, err := procfs.AllThreads(pid)
	if err != nil {
		return u, fmt.Errorf("process %d: %w", pid, err)
	}
	for _, t := range threads {
		status, err := t.NewStatus()
		if err != nil {
			continue // it has just ended
		}
		u.RSSBytes, u.PeakBytes = int64(status.VmRSS), int64(status.VmHWM) // of the process
		u.Voluntary += int64(status.VoluntaryCtxtSwitches)
		u.Involuntary += int64(status.NonVoluntaryCtxtSwitches)
	}
	p, err := procfs.NewProc(pid)
	if err != nil {
		return u, fmt.Errorf("process %d: %w", pid, err)
	}
	io, err := p.IO()
	u.ReadBytes = io.RChar
	return u, err
}

// ResetPeak resets the largest RSS so far: see proc_pid_clear_refs(5).
func ResetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5\n"), 0)
}
