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
	// retryMin and retryMax bound the pause after one that failed.
	retryMin, retryMax = 250 * time.Millisecond, 10 * time.Second
)

// Poller has types discovered.
type Poller struct {
	interval time.Duration
	discover func(ctx context.Context) error
	changed  chan struct{} // wanted has
	wanted   atomic.Int64  // when the next discovery is, in Unix nanoseconds; 0: whenever
	earliest atomic.Int64  // when it may be
}

// NewPoller makes one that discovers nothing until Run. Without a sign of change, it waits for the
// interval, jittered by 10 %.
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

// await waits until the next discovery is due: at a time, or when one is wanted before that.
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

// Want has types discovered at a time, at the latest; the zero time wants none.
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
