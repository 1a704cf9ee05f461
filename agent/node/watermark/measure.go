package watermark

import (
	"context"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
)

const (
	// measureSlack is what a removal may free less than computed without anybody
	// wondering: filesystem metadata, and the share below.
	measureSlack      = 1 << 20
	measureSlackShare = 50 // one part in 50

	// lateFor is how long a removal that freed less than computed is given on a figure that is
	// true: somebody may have had a file open for a moment more. latePoll is how often it
	// is read meanwhile. Others' deletions do not make it longer, for they never end.
	lateFor  = 250 * time.Millisecond
	latePoll = 20 * time.Millisecond
)

// Measured is a reading, and how much had been given back on the filesystem by then; only
// differences of that mean something. counted is false where the kernel does not count it.
type Measured struct {
	Reading
	givenBack uint64 // bytes
	counted   bool
}

// Measure takes a reading to compare with one after a removal.
func (w *Watcher) Measure(f *Filesystem) (m Measured, err error) {
	if m.Reading, err = w.survey.read(f); err != nil {
		return m, err
	}
	f.Reading = m.Reading
	m.givenBack, m.counted = w.kernel.givenBack(m.Reading)
	return m, nil
}

// cameFree is what came free since, in spite of those who write meanwhile. Others'
// deletions are in it.
func (m Measured) cameFree(since Measured) uint64 {
	free := gained(since.AvailableBytes, m.AvailableBytes)
	if m.counted && since.counted && m.givenBack > since.givenBack {
		free = max(free, m.givenBack-since.givenBack)
	}
	return free
}

// Freed is what a removal has freed. Nobody can tell its space from what others delete
// meanwhile: it is never more than what was computed.
type Freed struct {
	Bytes, Inodes uint64
	About         bool      // clearly more came free
	LookAgain     time.Time // when the disk's word counts again, if it does not show the removal yet
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

// enough is what must have come free for a removal to count as done as computed.
func enough(d image.Decision) uint64 { return d.FreesBytes - min(d.FreesBytes, slackOf(d.FreesBytes)) }

// Removed measures what a removal has freed since before, against what it was computed to
// free. What the disk does not show in time is believed for a while.
func (w *Watcher) Removed(ctx context.Context, f *Filesystem, before Measured, d image.Decision) Freed {
	believed := f.believed
	after, settled := w.await(ctx, f, before, d)
	result := freed(d, before, after)
	f.filling.reclaimed(result.Bytes, result.Inodes)
	switch {
	case settled:
		w.settling.shown(f, believed, true)
	case f.Believing() || after.cameFree(before) < enough(d):
		// Unless the agent is to stop, or the filesystem is there no more.
		if _, err := w.survey.read(f); err == nil && ctx.Err() == nil {
			result.LookAgain = w.settling.believe(f, d, before, after)
		}
	}
	return result
}

// await makes the disk's figure true after a removal, and waits a little if less was freed
// than computed. settled is false if the figure could not be made true before the deadline, after
// which it has waited for what was computed, or if the filesystem went meanwhile. A writer that
// fills the disk at the same time looks like a shortfall where what was given back is not counted.
func (w *Watcher) await(ctx context.Context, f *Filesystem, before Measured, d image.Decision) (after Measured, settled bool) {
	ctx, cancel := context.WithTimeout(ctx, showDeadline)
	defer cancel()
	if settled = w.settling.settle(ctx, f); settled {
		ctx, cancel = context.WithTimeout(ctx, lateFor)
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
			return after, settled
		}
		if !waited {
			if settled {
				w.o.Metrics.shortfalls.Inc()
			}
			return after, settled
		}
	}
}

func gained(before, after uint64) uint64 { return after - min(before, after) }
