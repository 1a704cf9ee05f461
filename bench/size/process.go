package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/ebb-agent/ebb/tools/peers"
)

const mib = 1 << 20

// process is a contender's.
type process int

// usage in MiB and seconds.
type usage struct {
	rss, peak, read float64
	cpu             float64
}

// usage since the start; the peak since resetPeak.
func (p process) usage() (u usage, err error) {
	now, err := peers.UsageOf(int(p))
	if err != nil {
		return u, err
	}
	u.rss, u.peak, u.cpu = float64(now.RSSBytes)/mib, float64(now.PeakBytes)/mib, now.CPU.Seconds()
	read, err := p.read()
	u.read = float64(read) / mib
	return u, err
}

// read is how many bytes the process has read: from the API server, whose answers, with
// TLS around them, are all but some kilobytes of it.
func (p process) read() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", p))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "rchar:"); ok {
			return strconv.ParseInt(strings.TrimSpace(n), 10, 64)
		}
	}
	return 0, fmt.Errorf("/proc/%d/io has no rchar", p)
}

// resetPeak has the kernel forget the largest RSS so far: see proc_pid_clear_refs(5).
func (p process) resetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p), []byte("5\n"), 0)
}

// available is the memory that the machine has left, in MiB.
func available() (float64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	_, after, _ := bytes.Cut(text, []byte("MemAvailable:"))
	var kib float64
	if _, err := fmt.Sscan(string(after), &kib); err != nil {
		return 0, fmt.Errorf("read /proc/meminfo: %w", err)
	}
	return kib / 1024, nil
}
