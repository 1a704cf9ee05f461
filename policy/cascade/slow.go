package cascade

import "time"

// lane holds the deletions of one root that the caller wants later. An object in it
// costs four bytes; none is asked for, so that it takes no worker and no request.
type lane struct {
	root    string    // UID
	until   time.Time // nothing before
	pause   time.Duration
	most    int // at a time
	open    int // may still be asked for before until
	waiting []index
}

// lanes are in the order in which they came to be.
type lanes struct {
	all    []*lane
	byRoot map[string]*lane
	next   time.Time // the earliest until
	held   []index   // while all deletions are held
	hold   bool
}

func (l *lanes) earliest() {
	l.next = time.Time{}
	for _, one := range l.all {
		if l.next.IsZero() || one.until.Before(l.next) {
			l.next = one.until
		}
	}
}

// leastPause is how often a lane opens at the most.
const minPause = 10 * time.Millisecond

// Slow says that the deletions of a root are not wanted before a moment, and from then
// on at most so many as often as that is from now. It is for an answer [Deferred], and
// ends once none of them waits, or with [Collector.Release].
func (c *Collector) Slow(now time.Time, root string, until time.Time, most int) {
	c.now = now
	l := c.lanes.byRoot[root]
	if l == nil {
		l = &lane{root: root}
		if c.lanes.byRoot == nil {
			c.lanes.byRoot = make(map[string]*lane)
		}
		c.lanes.byRoot[root] = l
		c.lanes.all = append(c.lanes.all, l)
	}
	l.pause, l.most, l.open = max(until.Sub(now), minPause), max(most, 1), 0
	l.until = now.Add(l.pause)
	c.lanes.earliest()
}

// Hold has no deletion asked for at all while it is on; everything else goes on.
func (c *Collector) Hold(now time.Time, on bool) {
	c.now = now
	if c.lanes.hold == on {
		return
	}
	c.lanes.hold = on
	if !on {
		held := c.lanes.held
		c.lanes.held = nil
		c.unpark(held)
	}
}

// Slowed is how many roots are slowed, and how many deletions wait for that or are held.
// An object that is not to go any more may be among them until its turn.
func (c *Collector) Slowed() (roots, deletions int) {
	deletions = len(c.lanes.held)
	for _, l := range c.lanes.all {
		deletions += len(l.waiting)
	}
	return len(c.lanes.all), deletions
}

// SlowedOf says how many deletions of a root wait, and until when.
func (c *Collector) SlowedOf(root string) (deletions int, until time.Time) {
	if l := c.lanes.byRoot[root]; l != nil {
		return len(l.waiting), l.until
	}
	return 0, time.Time{}
}

// parks puts a deletion off, if it is not wanted now.
func (c *Collector) parks(i, owner index) bool {
	if !c.lanes.hold && len(c.lanes.all) == 0 {
		return false
	}
	list := &c.lanes.held
	if !c.lanes.hold {
		l := c.lanes.byRoot[c.root(owner).UID]
		if l == nil || l.open > 0 {
			return false
		}
		list = &l.waiting
	}
	if n := c.at(i); n.flags&parked == 0 {
		n.flags |= parked
		*list = append(*list, i)
	}
	return true
}

// passes counts a deletion that is asked for: not before, because one that has to be
// read first would have used up its turn by then.
func (c *Collector) passes(root string) {
	if l := c.lanes.byRoot[root]; l != nil {
		l.open--
	}
}

// unpark has objects looked at again. Some may be others by now, which is harmless.
func (c *Collector) unpark(list []index) {
	for _, i := range list {
		if n := c.at(i); n.flags&parked != 0 {
			n.flags &^= parked
			c.wake(i)
		}
	}
}

// openLanes lets those go on whose time has come.
func (c *Collector) openLanes() {
	if c.lanes.next.IsZero() || c.lanes.next.After(c.now) {
		return
	}
	kept := c.lanes.all[:0]
	for _, l := range c.lanes.all {
		if !l.until.After(c.now) {
			if len(l.waiting) == 0 {
				delete(c.lanes.byRoot, l.root)
				continue
			}
			some := min(l.most, len(l.waiting))
			l.open, l.until = l.most, c.now.Add(l.pause)
			c.unpark(l.waiting[:some])
			l.waiting = l.waiting[some:]
		}
		kept = append(kept, l)
	}
	clear(c.lanes.all[len(kept):])
	c.lanes.all = kept
	c.lanes.earliest()
}

// releaseLanes forgets that anything is slowed. What is held stays so.
func (c *Collector) releaseLanes() {
	all := c.lanes.all
	c.lanes.all, c.lanes.byRoot, c.lanes.next = nil, nil, time.Time{}
	for _, l := range all {
		c.unpark(l.waiting)
	}
}
