package watermark

import (
	"context"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
)

const (
	// measureSlack is how many bytes less than computed a removal may free without being short, for
	// filesystem metadata. A large removal may miss the share below.
	measureSlack      = 1 << 20
	measureSlackShare = 50 // one part in 50

	// lateFor is how long a removal that freed less than computed gets, once the figure is exact: a
	// process may have had a file open for a moment more. latePoll is how often the disk is read in
	// that time. Deletions by others do not extend it, for they never end.
	lateFor  = 250 * time.Millisecond
	latePoll = 20 * time.Millisecond

	// shortFor is how long a short removal on btrfs counts for those that follow.
	shortFor = 5 * time.Second
)

// Measured is a reading, and how much had been freed on the filesystem by then. Only differences of
// givenBack mean something. counted is false where the kernel does not count it.
type Measured struct {
	Reading
	givenBack uint64 // bytes
	counted   bool
}

// Measure takes a reading to compare with one after a removal.
func (w *Watcher) Measure(f *Filesystem) (m Measured, err error) {
	if m.Reading, err = w.read(f); err != nil {
		return m, err
	}
	m.givenBack, m.counted = w.kernel.givenBack(m.Reading)
	return m, nil
}

// cameFree returns how many bytes came free since, even if others write at the same time. It
// includes what others deleted.
func (m Measured) cameFree(since Measured) uint64 {
	free := gained(since.AvailableBytes, m.AvailableBytes)
	if m.counted && since.counted && m.givenBack > since.givenBack {
		free = max(free, m.givenBack-since.givenBack)
	}
	return free
}

// Freed is what a removal has freed. Its space cannot be distinguished from what others delete at the same
// time, so it is never more than computed.
type Freed struct {
	Bytes, Inodes uint64
	About         bool // clearly more than computed came free
}

func freed(d image.Decision, before, after Measured) Freed {
	free := after.cameFree(before)
	return Freed{
		Bytes:  min(free, d.FreesBytes),
		Inodes: min(gained(before.InodesAvailable, after.InodesAvailable), d.FreesInodes),
		About:  free > d.FreesBytes+slackOf(d.FreesBytes),
	}
}

func slackOf(bytes uint64) uint64 { return max(measureSlack, bytes/measureSlackShare) }

// enough returns how many bytes must have come free for a removal to count as complete.
func enough(d image.Decision) uint64 { return d.FreesBytes - min(d.FreesBytes, slackOf(d.FreesBytes)) }

// Removed measures what a removal has freed since before, against what it was computed to free.
// Space that the disk does not show in time is believed for a while.
func (w *Watcher) Removed(ctx context.Context, f *Filesystem, before Measured, d image.Decision) Freed {
	believed := f.believed
	after, settled := w.await(ctx, f, before, d)
	result := freed(d, before, after)
	f.filling.reclaimed(result.Bytes, result.Inodes)
	switch {
	case settled:
		w.settling.shown(f, believed, true)
	case f.Believing() || after.cameFree(before) < enough(d):
		// Not if the agent is stopping, or if the filesystem is gone.
		if _, err := w.survey.read(f); err == nil && ctx.Err() == nil {
			w.settling.believe(f, d, before, after)
		}
	}
	return result
}

// await makes the disk's figure exact after a removal, and waits for lateWait if less was freed than
// computed. settled is false if the figure could not be made exact within showDeadline, or if
// the filesystem is gone. In the first case it has waited until the deadline for the computed
// space. Where the kernel does not count what is freed, a writer that fills the disk at the same
// time looks like a shortfall.
func (w *Watcher) await(ctx context.Context, f *Filesystem, before Measured, d image.Decision) (after Measured, settled bool) {
	ctx, cancel := context.WithTimeout(ctx, showDeadline)
	defer cancel()
	if settled = w.settling.settle(ctx, f, nil); settled {
		ctx, cancel = context.WithTimeout(ctx, f.lateWait(w.o.Now()))
		defer cancel()
	}
	after = before
	for waited := true; ; waited = w.settling.pause(ctx, latePoll) {
		now, err := w.Measure(f)
		if err != nil {
			return after, false
		}
		after = now
		if after.cameFree(before) >= enough(d) {
			f.short = time.Time{}
			return after, settled
		}
		if !waited {
			if settled {
				f.short = w.o.Now().Add(shortFor)
				w.o.Metrics.shortfalls.Inc()
			}
			return after, settled
		}
	}
}

// lateWait returns how long to wait for late space, once the figure is exact. On btrfs a removal right
// after a short one does not wait: where files are compressed, each removal frees less than computed. On
// xfs the figure can still be a little early, so each removal waits ([fs.Settle]). While a disk fills fast, what was
// computed is believed.
func (f *Filesystem) lateWait(now time.Time) time.Duration {
	if f.countsDirty(now) || f.Lags() && now.Before(f.short) {
		return 0
	}
	return lateFor
}

func gained(before, after uint64) uint64 { return after - min(before, after) }
