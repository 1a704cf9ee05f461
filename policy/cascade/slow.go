package cascade

import "time"

// throttle holds back the deletions of one root that the caller wants later. An object in it
// costs four bytes. Its deletion is not emitted, so it takes no worker and no request.
type throttle struct {
	root    string    // UID
	until   time.Time // no deletion before
	pause   time.Duration
	most    int // per pause
	open    int // deletions that may still be emitted before until
	waiting []index
}

// throttles are all throttles, in the order of their creation.
type throttles struct {
	all    []*throttle
	byRoot map[string]*throttle
	next   time.Time // the earliest until
	held   []index   // objects parked while hold is on
	hold   bool
}

func (l *throttles) earliest() {
	l.next = time.Time{}
	for _, one := range l.all {
		if l.next.IsZero() || one.until.Before(l.next) {
			l.next = one.until
		}
	}
}

// minPause is the shortest pause of a throttle.
const minPause = 10 * time.Millisecond

// Slow limits the deletions of a root: none before until, and then up to most per pause.
// The pause is the time from now to until. Slow precedes an answer [gc.Deferred]. The limit
// ends once no deletion of the root waits, or with [Collector.Release].
func (c *Collector) Slow(now time.Time, root string, until time.Time, most int) {
	c.now = now
	l := c.throttles.byRoot[root]
	if l == nil {
		l = &throttle{root: root}
		if c.throttles.byRoot == nil {
			c.throttles.byRoot = make(map[string]*throttle)
		}
		c.throttles.byRoot[root] = l
		c.throttles.all = append(c.throttles.all, l)
	}
	l.pause, l.most, l.open = max(until.Sub(now), minPause), max(most, 1), 0
	l.until = now.Add(l.pause)
	c.throttles.earliest()
}

// Hold stops all deletions while on is true. Everything else continues.
func (c *Collector) Hold(now time.Time, on bool) {
	c.now = now
	if c.throttles.hold == on {
		return
	}
	c.throttles.hold = on
	if !on {
		held := c.throttles.held
		c.throttles.held = nil
		c.unpark(held)
	}
}

// Slowed returns how many roots are slowed, and how many deletions wait for that or are
// held. An object that is not to be deleted any more may count until its turn.
func (c *Collector) Slowed() (roots, deletions int) {
	deletions = len(c.throttles.held)
	for _, l := range c.throttles.all {
		deletions += len(l.waiting)
	}
	return len(c.throttles.all), deletions
}

// SlowedOf returns how many deletions of a root wait, and until when.
func (c *Collector) SlowedOf(root string) (deletions int, until time.Time) {
	if l := c.throttles.byRoot[root]; l != nil {
		return len(l.waiting), l.until
	}
	return 0, time.Time{}
}

// parks postpones a deletion that is not wanted now, and reports whether it did.
func (c *Collector) parks(i, owner index) bool {
	if !c.throttles.hold && len(c.throttles.all) == 0 {
		return false
	}
	list := &c.throttles.held
	if !c.throttles.hold {
		l := c.throttles.byRoot[c.root(owner).UID]
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

// passes counts a deletion when it is emitted. Counted earlier, a deletion that needs a
// live read first would have used up its turn by then.
func (c *Collector) passes(root string) {
	if l := c.throttles.byRoot[root]; l != nil {
		l.open--
	}
}

// unpark queues objects. An index may belong to another object by now, which is harmless.
func (c *Collector) unpark(list []index) {
	for _, i := range list {
		if n := c.at(i); n.flags&parked != 0 {
			n.flags &^= parked
			c.wake(i)
		}
	}
}

// refillThrottles releases the next deletions of each throttle whose time has come.
func (c *Collector) refillThrottles() {
	if c.throttles.next.IsZero() || c.throttles.next.After(c.now) {
		return
	}
	kept := c.throttles.all[:0]
	for _, l := range c.throttles.all {
		if !l.until.After(c.now) {
			if len(l.waiting) == 0 {
				delete(c.throttles.byRoot, l.root)
				continue
			}
			some := min(l.most, len(l.waiting))
			l.open, l.until = l.most, c.now.Add(l.pause)
			c.unpark(l.waiting[:some])
			l.waiting = l.waiting[some:]
		}
		kept = append(kept, l)
	}
	clear(c.throttles.all[len(kept):])
	c.throttles.all = kept
	c.throttles.earliest()
}

// endThrottles removes all throttles. Held deletions stay held.
func (c *Collector) endThrottles() {
	all := c.throttles.all
	c.throttles.all, c.throttles.byRoot, c.throttles.next = nil, nil, time.Time{}
	for _, l := range all {
		c.unpark(l.waiting)
	}
}
