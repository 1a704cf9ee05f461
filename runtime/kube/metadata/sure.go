package metadata

import (
	"errors"
	"math/rand/v2"
	"time"
)

// Sure reports whether the reports of the followers may be acted on. They may not while the API
// server is away. After an absence they may not until each type was resumed, listed or reported
// as Unreadable. The etcd may then have another history, in which an object that was being
// deleted lives on. If sure is false, changed is closed once it is true.
func (c *Client) Sure() (sure bool, changed <-chan struct{}) {
	return c.continuity.isSure(time.Now())
}

func (c *continuity) isSure(now time.Time) (bool, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unsettled == 0 && (c.since.IsZero() || now.Sub(c.since) < c.after) {
		return true, nil
	}
	if c.sure == nil {
		c.sure = make(chan struct{})
	}
	return false, c.sure
}

// notify wakes those that wait for Sure, if it is true again. The caller holds the lock.
func (c *continuity) notify() {
	if c.sure != nil && c.unsettled == 0 && c.since.IsZero() {
		close(c.sure)
		c.sure = nil
	}
}

// join counts a follower until leave is called, unless its type is an aggregated one.
func (c *continuity) join(f *Follower) (leave func()) {
	if f.t.Aggregated {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.followers == nil {
		c.followers = map[*Follower]*footing{}
	}
	c.followers[f] = &footing{begun: c.epoch, settled: c.epoch}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.followers[f].settled != c.epoch {
			c.unsettled--
		}
		delete(c.followers, f)
		c.notify()
	}
}

// begun notes that a follower has opened a list or a watch in an epoch. ended notes that this is
// over.
func (c *continuity) begun(f *Follower, epoch uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.followers[f]; x != nil {
		x.begun, x.open = epoch, true
	}
}

func (c *continuity) ended(f *Follower) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.followers[f]; x != nil {
		x.open = false
	}
}

// settled notes that what a follower has reported holds in an epoch, or that its type is
// unreadable.
func (c *continuity) settled(f *Follower, epoch uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.followers[f]
	if x == nil || x.settled == c.epoch {
		return
	}
	if x.settled = epoch; epoch == c.epoch {
		c.unsettled--
		c.notify()
	}
}

// behind reports whether a follower has a list or a watch open from before the last absence. A
// follower that is about to open one notices the absence by itself.
func (c *continuity) behind(f *Follower) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.followers[f]
	return x != nil && x.open && x.begun != c.epoch
}

func (c *continuity) current() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.epoch
}

// errAbsence ends a watch that seems to continue after an absence. Its server may be gone without
// a sign.
var errAbsence = errors.New("the API server was away meanwhile")

// lookAgain makes a follower check whether its reports still hold, even if it waits for its next
// attempt. It does so after a random delay, so that not all followers check at once.
func (f *Follower) lookAgain() {
	time.AfterFunc(rand.N(f.c.timing.spread+1), func() {
		if f.c.continuity.behind(f) {
			f.interrupt(errAbsence)
		} else {
			f.goOn()
		}
	})
}
