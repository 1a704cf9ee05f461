package metadata

import (
	"errors"
	"math/rand/v2"
	"time"
)

// Sure says whether what the followers have reported may be acted on. It may not while the
// API server is away, and after an absence until each type was discovered, listed, or reported
// to be unreadable: the etcd that is there then may have another history, in which an
// object that was being deleted lives on. If it may not, changed is closed once it may.
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

// notify those who wait, if it is sure again. The caller holds the lock.
func (c *continuity) notify() {
	if c.sure != nil && c.unsettled == 0 && c.since.IsZero() {
		close(c.sure)
		c.sure = nil
	}
}

// join counts a follower in until leave.
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

// begun notes that a follower has opened a list or a watch, in an epoch; ended, that it is
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

// settled notes that what a follower has reported holds in an epoch, or is unknown.
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

// behind says whether what a follower has open is from before the last absence. One that
// is about to open something finds out by itself.
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

// errAbsence ends a watch that seems to go on after an absence: its server may be gone,
// and nothing may have reported.
var errAbsence = errors.New("the API server was away meanwhile")

// lookAgain has a follower find out, in a while, whether what it has reported still holds, also
// if it waits for its next attempt: not all at once.
func (f *Follower) lookAgain() {
	time.AfterFunc(rand.N(f.c.timing.spread+1), func() {
		if f.c.continuity.behind(f) {
			f.interrupt(errAbsence)
		} else {
			f.goOn()
		}
	})
}
