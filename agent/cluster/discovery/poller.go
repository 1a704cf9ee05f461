// Package discovery decides when an API server is asked which types it serves: at the start, after a
// sign that they changed, and at an interval.
package discovery

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/ebb-agent/ebb/runtime/wait"
)

const (
	// minInterval is the least time between two discoveries.
	minInterval = 400 * time.Millisecond
	// retryMin and retryMax bound the pause after a failed discovery.
	retryMin, retryMax = 250 * time.Millisecond, 10 * time.Second
)

// Poller calls a function that discovers types, whenever that is due.
type Poller struct {
	interval time.Duration
	discover func(ctx context.Context) error
	changed  chan struct{} // signals that wanted has changed
	wanted   atomic.Int64  // latest time of the next discovery, in Unix nanoseconds; 0: none is wanted
	earliest atomic.Int64  // earliest time of the next discovery, in Unix nanoseconds
}

// NewPoller returns a Poller that discovers nothing until Run. Without a sign of change, it waits
// for the interval, jittered by 10 %.
func NewPoller(interval time.Duration, discover func(ctx context.Context) error) *Poller {
	return &Poller{interval: interval, discover: discover, changed: make(chan struct{}, 1)}
}

// Run discovers until ctx ends.
func (p *Poller) Run(ctx context.Context) {
	backoff := wait.Backoff{Min: retryMin, Max: retryMax}
	for next := time.Now(); p.await(ctx, next); {
		asked := time.Now()
		if err := p.discover(ctx); err != nil {
			next = time.Now().Add(backoff.Next())
			p.earliest.Store(next.UnixNano())
			continue
		}
		backoff.Reset()
		p.earliest.Store(asked.Add(minInterval).UnixNano())
		next = asked.Add(time.Duration(float64(p.interval) * (0.9 + rand.Float64()/5)))
	}
}

// await waits until the next discovery is due: at next, or earlier if Want asked for that. It
// returns false if ctx ended before.
func (p *Poller) await(ctx context.Context, next time.Time) bool {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		at := next
		if want := p.wanted.Load(); want != 0 && want < at.UnixNano() {
			at = time.Unix(0, max(want, p.earliest.Load()))
		}
		timer.Reset(time.Until(at))
		select {
		case <-ctx.Done():
			return false
		case <-p.changed:
		case <-timer.C:
			return true
		}
	}
}

// Want schedules a discovery for t at the latest. The zero time cancels that.
func (p *Poller) Want(t time.Time) {
	var at int64
	if !t.IsZero() {
		at = t.UnixNano()
	}
	if p.wanted.Swap(at) == at {
		return
	}
	select {
	case p.changed <- struct{}{}:
	default:
	}
}
