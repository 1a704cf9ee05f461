package watermark

import (
	"time"

	"github.com/ebb-agent/ebb/policy/image"
)

// backoffLeast and backoffMost bound the time between two looks at a filesystem on hold. The
// reconcile looks about as often as backoffMost anyway.
const (
	backoffLeast = 5 * time.Second
	backoffMost  = 5 * time.Minute
)

// backoff spaces the looks at a filesystem on hold. Every removable image is gone, so growth alone
// changes nothing: the wait before a look doubles each time, until containers, images or pods
// change. The zero value does not wait.
type backoff struct {
	hold  *image.Hold   // the latest plan's; nil: none
	disk  image.Disk    // at that plan
	pause time.Duration // after the latest look; 0: something has changed since
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
		*b = backoff{} // not earlier: on a disk near its threshold, the hold may begin again at once
	}
}

// changed takes in a change after which more images may be removable. The change brings a look of
// its own. Growth may cause another one backoffLeast later.
func (b *backoff) changed(now time.Time) {
	if b.pause = 0; b.until.After(now.Add(backoffLeast)) {
		b.until = now.Add(backoffLeast)
	}
}

// waits returns how long a look at the images, for which the latest reading asks, has to wait. It
// waits only on hold, and only if no other resource has reached its threshold, because a look may
// help there.
func (f *Filesystem) waits(now time.Time) time.Duration {
	hold := f.backoff.hold
	if hold == nil || !f.backoff.until.After(now) {
		return 0
	}
	if bytes, inodes := f.Thresholds.Reached(f.With(f.Disk)); bytes && !hold.Bytes || inodes && !hold.Inodes {
		return 0
	}
	return f.backoff.until.Sub(now)
}

// endsHold reports whether others have freed so much since the latest plan that the hold is
// over: the disk fell below its high threshold, or the removable images would now be enough to
// reach the low one. The kernel raises no event for that.
func (f *Filesystem) endsHold(r Reading) bool {
	hold := f.backoff.hold
	reaches := func(was, is, at uint64) bool { return at > 0 && was < at && is >= at }
	was, is := f.With(f.backoff.disk), f.With(r.Disk)
	return hold != nil && (f.Thresholds.HighReached(was) && !f.Thresholds.HighReached(is) ||
		reaches(was.AvailableBytes, is.AvailableBytes, hold.EndsAtBytes) || reaches(was.InodesAvailable, is.InodesAvailable, hold.EndsAtInodes))
}

// postponed plans a recheck of a filesystem on hold for the end of its back-off. It returns false
// if that is over. Until then the kernel has no armed threshold there.
func (f *Filesystem) postponed(now time.Time) bool {
	wait := f.waits(now)
	if wait > 0 {
		f.recheck(now.Add(wait))
	}
	return wait > 0
}
