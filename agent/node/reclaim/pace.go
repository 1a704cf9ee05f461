package reclaim

import (
	"time"

	"github.com/ebb-agent/ebb/agent/node/watermark"
)

// pace is how fast others fill the disk that a run removes images from.
type pace struct {
	on        *filesystem   // nil: nothing was planned yet
	at        time.Duration // CLOCK_BOOTTIME of the first plan for it
	available uint64        // bytes at that time
	freed     uint64        // by the run since
}

// planned notes a plan for a filesystem, whose latest reading is the first one unless it has been the target
// before.
func (p *pace) planned(f *filesystem, boot time.Duration) {
	if p.on != f {
		*p = pace{on: f, at: boot, available: f.AvailableBytes}
	}
}

// fast reports whether the disk fills so fast, by its pace during the run, that the images of a plan go together.
func (p *pace) fast(f *filesystem, boot time.Duration) bool {
	if p.on != f {
		return false
	}
	grown := float64(p.available) + float64(p.freed) - float64(f.AvailableBytes)
	return watermark.FullSoon(f.AvailableBytes, grown, boot-p.at)
}
