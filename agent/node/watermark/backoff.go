package watermark

import (
	"time"

	"github.com/ebb-agent/ebb/policy/image"
)

// backoffLeast and backoffMost bound the time between two looks at a filesystem on hold. The
// reconcile looks as often anyway.
const (
	backoffLeast = 5 * time.Second
	backoffMost  = 5 * time.Minute
)

// backoff spaces the looks at a filesystem on hold. All that may go is gone, so that growth
// alone changes nothing: each look after it comes twice as long after the one before,
// until containers, images or pods change. The zero value waits for nothing.
type backoff struct {
	hold  *image.Hold   // the latest plan's; nil: none
	pause time.Duration // from the latest look; 0: something has changed since
	until time.Time     // no look for growth before then
}

// looked notes a look that found a hold, or none.
func (b *backoff) looked(hold *image.Hold, now time.Time) {
	b.hold = hold
	switch {
	case hold != nil:
		b.pause = min(max(2*b.pause, backoffLeast), backoffMost)
		b.until = now.Add(b.pause)
	case now.After(b.until):
		*b = backoff{} // one that ended only just may begin anew at once: a disk around its threshold
	}
}

// changed is for anything that may make more images go. That brings a look of its own;
// growth may cause another one soon, too.
func (b *backoff) changed(now time.Time) {
	if b.pause = 0; b.until.After(now.Add(backoffLeast)) {
		b.until = now.Add(backoffLeast)
	}
}

// waits is how long the latest reading, which asks for a look at images, has to wait: only on
// hold, and only if no other resource has reached its threshold, which may be helped.
func (f *Filesystem) waits(now time.Time) time.Duration {
	hold := f.backoff.hold
	if hold == nil || !f.backoff.until.After(now) {
		return 0
	}
	bytes, inodes := f.Thresholds, f.Thresholds
	bytes.InodesHighPercent, inodes.HighPercent = 0, 0
	if d := f.with(f.Disk); !hold.Bytes && bytes.HighReached(d) || !hold.Inodes && inodes.HighReached(d) {
		return 0
	}
	return f.backoff.until.Sub(now)
}

// endsHold reports whether others have freed so much since the latest reading that the hold is over: the
// disk fell below its high threshold, or the images that may go would reach the low one now. The kernel
// raises no event for that.
func (f *Filesystem) endsHold(r Reading) bool {
	hold := f.backoff.hold
	reaches := func(was, is, at uint64) bool { return at > 0 && was < at && is >= at }
	was, is := f.with(f.Disk), f.with(r.Disk)
	return hold != nil && (f.Thresholds.HighReached(was) && !f.Thresholds.HighReached(is) ||
		reaches(was.AvailableBytes, is.AvailableBytes, hold.EndsAtBytes) || reaches(was.InodesAvailable, is.InodesAvailable, hold.EndsAtInodes))
}

// postponed plans a look at a filesystem on hold for when its time has come; false if that
// is now. Until then the kernel has no threshold there that could be reached.
func (f *Filesystem) postponed(now time.Time) bool {
	wait := f.waits(now)
	if wait > 0 {
		f.recheck(now.Add(wait))
	}
	return wait > 0
}
