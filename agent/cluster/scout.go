package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

const (
	// discoveryGap is the least time between two discoveries.
	discoveryGap = 400 * time.Millisecond
	// discoveryRetry bounds the pause after one that failed.
	discoveryRetryMin, discoveryRetryMax = 250 * time.Millisecond, 10 * time.Second
)

// scout asks which types there are: at the start, when something told that they
// changed, and now and then.
func (c *Controller) scout(ctx context.Context) {
	interval := func() time.Duration {
		return time.Duration(float64(c.discoveryInterval) * (0.9 + rand.Float64()/5))
	}
	pause := discoveryRetryMin
	for next := time.Now(); c.await(ctx, next); {
		asked := time.Now()
		if _, err := c.discover(ctx); err != nil {
			next = time.Now().Add(pause)
			pause = min(2*pause, discoveryRetryMax)
			c.earliest.Store(next.UnixNano())
			continue
		}
		pause = discoveryRetryMin
		c.earliest.Store(asked.Add(discoveryGap).UnixNano())
		next = asked.Add(interval())
	}
}

// await the next discovery: at a time, or when the loop wants one before that.
func (c *Controller) await(ctx context.Context, next time.Time) bool {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		at := next
		if want := c.wanted.Load(); want != 0 && want < at.UnixNano() {
			at = time.Unix(0, max(want, c.earliest.Load()))
		}
		timer.Reset(time.Until(at))
		select {
		case <-ctx.Done():
			return false
		case <-c.poked:
		case <-timer.C:
			return true
		}
	}
}

// want tells the scout when the definitions want the next discovery.
func (c *Controller) want() {
	var at int64
	if t := c.definitions.next(); !t.IsZero() {
		at = t.UnixNano()
	}
	if c.wanted.Swap(at) == at {
		return
	}
	select {
	case c.poked <- struct{}{}:
	default:
	}
}

var errNoTypes = errors.New("the API server names no types at all")

// discover asks once, and has the loop take the answer.
func (c *Controller) discover(ctx context.Context) (metadata.Discovery, error) {
	asked := time.Now()
	d, err := c.api.Discover(ctx)
	if err == nil && len(d.Types) == 0 {
		err = errNoTypes // kubernetes issue 60037: nothing is gone because of that
	}
	if err != nil {
		c.metrics.discoveries.WithLabelValues("failed").Inc()
		_ = c.enter(ctx, func(now time.Time) { c.discoveryFailed(now, err) })
		return d, fmt.Errorf("discover types: %w", err)
	}
	c.metrics.discoveries.WithLabelValues("done").Inc()
	return d, c.enter(ctx, func(now time.Time) {
		c.discovered(now, asked, d)
		c.want()
	})
}

func (c *Controller) discoveryFailed(now time.Time, err error) {
	st := *c.status.Load()
	if st.discovery == "" {
		c.log.Warn("types cannot be discovered; those that are known go on", "reason", err.Error())
	}
	st.discovery = err.Error()
	c.status.Store(&st)
	c.publish(now)
}
