package agentrun

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Usage is what the kernel has accounted to an agent.
type Usage struct {
	At         time.Time
	CPU        time.Duration // since its start, of the threads that live
	Switches   int           // voluntary context switches, likewise
	RSSMiB     float64
	PeakRSSMiB float64
}

// Usage reads it from /proc.
func (p *Process) Usage() (u Usage, err error) {
	u.At = time.Now()
	dir := fmt.Sprintf("/proc/%d", p.PID())
	tasks, err := filepath.Glob(dir + "/task/*")
	if err != nil {
		return u, err
	}
	for _, task := range tasks {
		stat, err := os.ReadFile(filepath.Join(task, "schedstat"))
		if err != nil {
			return u, err
		}
		var ns, waited, slices int64
		if _, err := fmt.Sscan(string(stat), &ns, &waited, &slices); err != nil {
			return u, fmt.Errorf("%s/schedstat: %w", task, err)
		}
		u.CPU += time.Duration(ns)
		n, err := statusField(task, "voluntary_ctxt_switches:")
		if err != nil {
			return u, err
		}
		u.Switches += n
	}
	for name, to := range map[string]*float64{"VmRSS:": &u.RSSMiB, "VmHWM:": &u.PeakRSSMiB} {
		kib, err := statusField(dir, name)
		if err != nil {
			return u, err
		}
		*to = float64(kib) / 1024
	}
	return u, nil
}

// CPUPercent is the share of one core that was used since.
func (u Usage) CPUPercent(since Usage) float64 {
	return 100 * float64(u.CPU-since.CPU) / float64(u.At.Sub(since.At))
}

// statusField returns the number behind a name in a /proc status file.
func statusField(dir, name string) (int, error) {
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			var v int
			_, err := fmt.Sscan(rest, &v)
			return v, err
		}
	}
	return 0, fmt.Errorf("%s/status: no %s", dir, name)
}
