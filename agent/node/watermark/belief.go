package watermark

import (
	"time"

	"github.com/ebb-agent/ebb/policy/image"
)

// believedFor is how long the computed figure is believed of what the disk does not show;
// believedLagging, where it shows nothing before a commit (btrfs makes one every 30 s).
const (
	believedFor     = 5 * time.Second
	believedLagging = 35 * time.Second
)

// belief is what removals have freed by computation since the disk's figure could last be
// made true. Without it, other images would go in place of those that went already,
// because the disk does not show it yet.
type belief struct {
	bytes, inodes         uint64
	fromBytes, fromInodes uint64    // what was available before them: growth since then is shown already
	until                 time.Time // then the disk's word counts; zero: nothing is believed
}

// Believing reports whether removals are believed that the disk does not show yet.
func (f *Filesystem) Believing() bool { return !f.believed.until.IsZero() }

// Believed is the latest reading with what is believed beyond it.
func (f *Filesystem) Believed() image.Disk {
	d, b := f.Disk, &f.believed
	beyond := func(available, capacity, believed, from uint64) uint64 {
		hidden := believed - min(believed, gained(from, available))
		return max(available, min(available+hidden, capacity))
	}
	d.AvailableBytes = beyond(d.AvailableBytes, d.CapacityBytes, b.bytes, b.fromBytes)
	d.InodesAvailable = beyond(d.InodesAvailable, d.Inodes, b.inodes, b.fromInodes)
	return d
}
