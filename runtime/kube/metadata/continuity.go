package metadata

import (
	"errors"
	"sync"
	"time"
)

// awayAfter is how long the API server must have been away for what it has then to be
// listed again, whatever it says of versions. Who restores an etcd from a backup stops
// all API servers first, and that takes longer; whose connection a load balancer cuts,
// or whose API server goes while another one is there, is back much sooner. An API server
// that was restarted has forgotten its window, and mostly asks for a list anyway.
const awayAfter = 2 * time.Second

// continuity is what the followers of a client know together of whether the API
// server has been there all the time: after an absence its etcd may be one from a backup,
// and may have gone on beyond the versions that were seen. Then no version tells.
type continuity struct {
	after time.Duration // awayAfter, but in tests
	mu    sync.Mutex
	heard time.Time // last, by a watch
	since time.Time // it is away; zero: it is not
	epoch uint64    // how often it was away for long
}

// hear notes that the API server is there.
func (c *continuity) hear(now time.Time) (epoch uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.since.IsZero() && now.Sub(c.since) >= c.after {
		c.epoch++
	}
	c.heard, c.since = now, time.Time{}
	return c.epoch
}

// miss notes that nothing answers. If that was found out by silence alone, it has been
// so since something was heard.
func (c *continuity) miss(now time.Time, silence bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.since.IsZero() {
		return
	}
	if c.since = now; silence && !c.heard.IsZero() {
		c.since = c.heard
	}
}

// errAway: the API server was away for long, so that nothing is known for sure.
var errAway = errors.New("the API server was away")

// missed notes an end of an attempt that may mean that the API server is away. An
// answer, even a bad one, is of somebody who is there.
func (f *Follower) missed(err error) {
	if f.t.Aggregated {
		return // silence is the other server's
	}
	var refusal *problem
	switch {
	case errors.As(err, &refusal) && (refusal.code != 0 || refusal.Kind != ErrUnavailable):
	case errors.As(err, &refusal), errors.Is(err, errEnded) && f.doubtful:
		f.c.continuity.miss(time.Now(), f.silent)
	}
}
