package node

import (
	"time"

	"github.com/ebb-agent/ebb/policy/image"
)

// calmMost bounds the time between two looks at a filesystem on hold. The reconcile
// looks as often anyway.
const calmMost = 5 * time.Minute

// calm spaces the looks at a filesystem on hold. All that may go is gone, so that
// growth alone changes nothing: each look after it comes twice as long after the one
// before, until containers, images or pods change. The zero value waits for nothing.
type calm struct {
	pause time.Duration // from the latest look; 0: something has changed since
	until time.Time     // no look for growth before then
}

// looked notes a look that found a hold, or none.
func (c *calm) looked(hold bool, now time.Time) {
	switch {
	case hold:
		c.pause = min(max(2*c.pause, eventSpacing), calmMost)
		c.until = now.Add(c.pause)
	case now.After(c.until):
		*c = calm{} // one that ended only just may begin anew at once: a disk around its line
	}
}

// changed is for anything that may make more images go. That brings a look of its
// own; growth may cause another one soon, too.
func (c *calm) changed(now time.Time) {
	if c.pause = 0; c.until.After(now.Add(eventSpacing)) {
		c.until = now.Add(eventSpacing)
	}
}

// waits is how long a reading that asks for a look at images has to wait: only on
// hold, and only if no other resource has reached its line, which may be helped.
func (s *store) waits(r reading, now time.Time) time.Duration {
	hold := s.kept.Hold
	if hold == nil || !s.calm.until.After(now) {
		return 0
	}
	bytes, inodes := s.lines, s.lines
	bytes.InodesHighPercent, inodes.HighPercent = 0, 0
	if !hold.Bytes && bytes.HighReached(r.Disk) || !hold.Inodes && inodes.HighReached(r.Disk) {
		return 0
	}
	return s.calm.until.Sub(now)
}

// putOff plans a look at a filesystem on hold for when its time has come; false if
// that is now. Until then the kernel has no line there that could be reached.
func (a *Agent) putOff(f *filesystem, r reading) bool {
	now := a.clock.now()
	for _, s := range a.stores {
		if s.filesystem != f {
			continue
		}
		if wait := s.waits(r, now); wait > 0 {
			f.reading = r
			a.tendAt(f, now.Add(wait))
			return true
		}
	}
	return false
}

// holdsMayEnd is told of changes of containers, images and pods.
func (a *Agent) holdsMayEnd() {
	for _, s := range a.stores {
		s.calm.changed(a.clock.now())
	}
}

// sameHold: what is said of the one is still true of the other. How full the disk is
// has metrics.
func sameHold(was, is *image.Hold) bool {
	return was != nil && is != nil && was.Bytes == is.Bytes && was.Inodes == is.Inodes
}
