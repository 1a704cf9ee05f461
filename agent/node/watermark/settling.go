package watermark

import (
	"context"
	"log/slog"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
)

// settling makes the figures of a disk exact, and keeps the belief in space that a disk does not
// show in time.
type settling struct{ o *Options }

// settledFor is how long a settled figure counts where the disk shows less: see [Filesystem.freest].
// Until then the kernel has removed the block groups that have become empty.
const settledFor = 500 * time.Millisecond

// settle makes the disk's figure exact; false if that takes longer than ctx allows. The filesystem
// may be gone when it returns.
func (s settling) settle(ctx context.Context, f *Filesystem, reached func(image.Disk) bool) bool {
	var err error
	var disk image.Disk
	path := f.Path
	s.o.Outside(func() { disk, err = s.o.Disk.Settle(ctx, path, reached) })
	if err != nil {
		s.o.Metrics.unsettled.Inc()
		s.o.Log.Debug("settle", "error", err)
	}
	if err != nil || f.Path != path { // another disk has settled
		return false
	}
	f.settled = settled{disk: disk, until: s.o.Now().Add(settledFor)}
	return true
}

// pause waits; false if ctx ends first. The filesystem may be gone when it returns.
func (s settling) pause(ctx context.Context, wait time.Duration) (passed bool) {
	s.o.Outside(func() {
		select {
		case <-time.After(wait):
			passed = true
		case <-ctx.Done():
		}
	})
	return passed
}

// believe counts a removal as done as computed, for a while: see [Filesystem.BelievedUntil].
func (s settling) believe(f *Filesystem, d image.Decision, before, after Measured) {
	b := &f.believed
	if !f.Believing() {
		wait := believedFor
		if f.Lags() {
			wait = believedLagging
		}
		*b = belief{until: s.o.Now().Add(wait), fromBytes: before.AvailableBytes, fromInodes: before.InodesAvailable}
	}
	b.bytes += d.FreesBytes
	b.inodes += d.FreesInodes
	b.fromBytes, b.fromInodes = min(b.fromBytes, before.AvailableBytes), min(b.fromInodes, before.InodesAvailable)
	s.o.Conditions.Begin(f.lateTopic(), slog.LevelWarn, "the freed space does not show yet; continuing with the computed value",
		"reason", "shortfall", "path", f.Path, "freed_bytes", after.cameFree(before), "computed_bytes", d.FreesBytes)
}

// shown ends a belief if the figure is exact, or the time of the belief is over. A belief that a
// later removal has changed stays.
func (s settling) shown(f *Filesystem, believed belief, settled bool) {
	if f.believed != believed {
		return
	}
	if settled {
		s.o.Conditions.End(f.lateTopic(), "the disk shows what was removed")
	}
	if settled || !s.o.Now().Before(f.believed.until) {
		f.believed = belief{}
	}
}
