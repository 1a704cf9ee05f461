package program

import (
	"errors"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// LimitMemory tells Go's runtime what its container may use, so that the heap is
// collected more often before the kernel kills the program. A tenth is left for what
// Go does not count: the kernel's own memory and pages of files. GOMEMLIMIT in the
// environment wins, and where there is no limit, or none can be read, nothing changes.
func LimitMemory(log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit, err := memlimit.FromCgroup()
	if err != nil || limit == 0 {
		if !errors.Is(err, memlimit.ErrNoLimit) {
			log.Debug("no memory limit", "reason", err)
		}
		return
	}
	debug.SetMemoryLimit(int64(limit / 10 * 9))
	log.Debug("memory limit", "bytes", limit/10*9, "reason", "limit of the container", "container", limit)
}
