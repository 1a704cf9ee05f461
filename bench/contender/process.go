package contender

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/ebb-agent/ebb/tools/peers"
)

// MiB is a mebibyte.
const MiB = 1 << 20

// Process is a contender's.
type Process int

// Usage in MiB and seconds. Read is from the API server.
type Usage struct {
	RSS, Peak, Read float64
	CPU             float64
}

// Usage since the start; the peak since ResetPeak.
func (p Process) Usage() (u Usage, err error) {
	now, err := peers.UsageOf(int(p))
	if err != nil {
		return u, err
	}
	u.RSS, u.Peak, u.CPU = float64(now.RSSBytes)/MiB, float64(now.PeakBytes)/MiB, now.CPU.Seconds()
	read, err := p.read()
	u.Read = float64(read) / MiB
	return u, err
}

// read is how many bytes the process has read: from the API server, whose answers, with
// TLS around them, are all but some kilobytes of it.
func (p Process) read() (int64, error) {
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

// ResetPeak has the kernel forget the largest RSS so far: see proc_pid_clear_refs(5).
func (p Process) ResetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p), []byte("5\n"), 0)
}
