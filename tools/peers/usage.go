package peers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is what the kernel accounts to a process.
type Usage struct {
	At  time.Time
	CPU time.Duration // since its start, of threads that have ended, too

	// Context switches of the threads there are: those that waited for
	// something, and those that were made to go.
	Voluntary, Involuntary int64

	RSSBytes  int64
	PeakBytes int64 // the largest RSS so far
}

// Rate is the use of a process between two readings.
type Rate struct {
	CPUPercent  float64 // of one core
	PerSecond   float64 // context switches, of both kinds
	Voluntary   float64 // a second
	Involuntary float64 // a second
}

// Since compares with an earlier reading.
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

// UsageOf reads the use of a process, any one.
func UsageOf(pid int) (Usage, error) {
	var u Usage
	// The CPU clock of a whole process, in nanoseconds, where /proc/PID/stat
	// has ticks: see clock_getcpuclockid(3). 2 is CPUCLOCK_SCHED.
	var spent unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &spent); err != nil {
		return u, fmt.Errorf("read its CPU clock: %w", err)
	}
	u.At, u.CPU = time.Now(), time.Duration(spent.Nano())
	status, err := readStatus(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, err
	}
	u.RSSBytes, u.PeakBytes = status["VmRSS"]<<10, status["VmHWM"]<<10
	return u, eachThread(pid, func(status map[string]int64, _ byte) {
		u.Voluntary += status["voluntary_ctxt_switches"]
		u.Involuntary += status["nonvoluntary_ctxt_switches"]
	})
}

// eachThread visits the threads of a process. Those that end meanwhile are left
// out.
func eachThread(pid int, visit func(status map[string]int64, state byte)) error {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return err
	}
	if len(tasks) == 0 {
		return fmt.Errorf("process %d: %w", pid, ErrNotRunning)
	}
	for _, path := range tasks {
		status, err := readStatus(path)
		if err != nil {
			continue
		}
		visit(status, byte(status["State"]))
	}
	return nil
}

// allThreads tells whether every thread is stopped, or none is.
func allThreads(pid int, stopped bool) (bool, error) {
	all := true
	err := eachThread(pid, func(_ map[string]int64, state byte) {
		all = all && (state == 'T') == stopped
	})
	return all, err
}

// readStatus returns the numbers in a status file of /proc; State's is its
// letter.
func readStatus(path string) (map[string]int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	numbers := make(map[string]int64)
	for line := range strings.Lines(string(data)) {
		name, rest, ok := strings.Cut(line, ":")
		rest = strings.TrimSpace(rest)
		if !ok || rest == "" {
			continue
		}
		var n int64
		if name == "State" {
			n = int64(rest[0])
		} else if _, err := fmt.Sscan(rest, &n); err != nil {
			continue // not a number
		}
		numbers[name] = n
	}
	return numbers, nil
}
