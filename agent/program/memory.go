package program

import (
	"errors"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// LimitMemory sets the memory limit of Go's runtime to nine tenths of the container's limit. So the
// heap is collected more often before the kernel kills the program. The last tenth is for what Go
// does not count: the kernel's own memory and pages of files. Nothing changes if GOMEMLIMIT is set
// in the environment, if there is no limit, or if none can be read.
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
