package watermark

import (
	"time"

	"github.com/ebb-agent/ebb/policy/image"
)

// believedFor is how long the computed figure counts for space that the disk does not show.
// believedLagging is the same where the disk shows nothing before a commit (btrfs makes one every
// 30 s).
const (
	believedFor     = 5 * time.Second
	believedLagging = 35 * time.Second

	// dirtyFor is how long [Filesystem.CountDirty] holds.
	dirtyFor = 5 * time.Second
)

// exactness is what is known of a disk beside its latest reading.
type exactness struct {
	believed belief // in removals that did not show in time
	settled  settled
	short    time.Time // until then the disk is taken to free less than computed: see [Filesystem.lateWait]
	dirty    time.Time // until then readings count what is not allocated yet: see [Filesystem.CountDirty]
}

// belief is what removals have freed by computation since the disk's figure could last be made
// exact. Without it, other images would be removed in place of those already removed, because the
// disk does not show the space yet.
type belief struct {
	bytes, inodes         uint64
	fromBytes, fromInodes uint64    // available before the removals: what was gained since then shows already
	until                 time.Time // then the disk's figure counts again; zero: nothing is believed
}

// settled is the disk's figure when it was last exact.
type settled struct {
	disk  image.Disk
	until time.Time
}

// freest returns a new reading with what was free when the disk had settled, shortly before: on
// btrfs statfs can show less for a moment ([fs.Settle]). What is written meanwhile is not seen for
// as long, except by what sets the threshold.
func (f *Filesystem) freest(r Reading, now time.Time) Reading {
	if s := &f.settled; f.Lags() && s.disk.CapacityBytes == r.CapacityBytes && now.Before(s.until) {
		r.AvailableBytes = max(r.AvailableBytes, s.disk.AvailableBytes)
	}
	return r
}

// CountDirty sets whether readings count what is written and not allocated yet as used, for dirtyFor from now. statfs
// does so itself on ext4 and xfs. On btrfs it takes seconds to have all of it allocated. Beside that, each change of
// the runtime's database takes long, and the disk can be full before an image goes. But some of it may not take space:
// where files are compressed, so it never counts there, or where blocks are overwritten in place.
func (f *Filesystem) CountDirty(on bool, now time.Time) {
	f.dirty = time.Time{}
	if on && f.promises() {
		f.dirty = now.Add(dirtyFor)
	}
}

// promises reports whether what is written and not allocated yet is known, and takes as much space as was written.
func (f *Filesystem) promises() bool { return f.Lags() && !f.Compressed }

// countsDirty reports whether readings count it.
func (f *Filesystem) countsDirty(now time.Time) bool { return now.Before(f.dirty) }

// Believing reports whether freed space counts that the disk does not show yet.
func (f *Filesystem) Believing() bool { return !f.believed.until.IsZero() }

// BelievedUntil is when the disk's figure counts again, whatever it shows; zero if it counts now.
func (f *Filesystem) BelievedUntil() time.Time { return f.believed.until }

// Believed returns the latest reading, with the freed space that it does not show yet.
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
