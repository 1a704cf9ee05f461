package watermark

import (
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
)

// pastSpacing and pastMost bound the readings that are kept: those of a day, as far as the disk was
// read.
const (
	pastSpacing = 5 * time.Minute
	pastMost    = 288
)

// Sample is how full a filesystem was, in percent.
type Sample struct {
	At           time.Duration // CLOCK_BOOTTIME
	Used, Inodes int
}

// past are the readings of a filesystem, the oldest first. It gets the readings that are made
// anyway.
type past []Sample

func (p *past) add(at time.Duration, d image.Disk) {
	if n := len(*p); n > 0 && at-(*p)[n-1].At < pastSpacing {
		return
	}
	if len(*p) == pastMost {
		*p = slices.Delete(*p, 0, 1)
	}
	*p = append(*p, Sample{at, d.UsedPercent(), d.InodesUsedPercent()})
}

// Past returns the readings of the last day, the oldest first.
func (f *Filesystem) Past() []Sample { return f.past }
