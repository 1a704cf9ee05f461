package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/runtime/wait"
)

const (
	// minDiscoveryInterval is the least time between two discoveries.
	minDiscoveryInterval = 400 * time.Millisecond
	// discoveryRetryMin and discoveryRetryMax bound the pause after one that failed.
	discoveryRetryMin, discoveryRetryMax = 250 * time.Millisecond, 10 * time.Second
)

// pollDiscovery discovers the types: at the start, after a sign that they changed, and at
// an interval.
//
// A failed discovery, or a failed part of one, changes nothing. A resource stays followed
// in its version as long as that is served. A type is gone if its definition was seen to
// be deleted, or if discovery lacks it for long and its own list and watch are answered a
// bare 404: the server that answers discovery may be older than the one that serves the
// type.
func (c *Controller) pollDiscovery(ctx context.Context) {
	interval := func() time.Duration {
		return time.Duration(float64(c.discoveryInterval) * (0.9 + rand.Float64()/5))
	}
	backoff := wait.Backoff{Min: discoveryRetryMin, Max: discoveryRetryMax}
	for next := time.Now(); c.awaitDiscovery(ctx, next); {
		asked := time.Now()
		if _, err := c.discover(ctx); err != nil {
			next = time.Now().Add(backoff.Next())
			c.earliestDiscovery.Store(next.UnixNano())
			continue
		}
		backoff.Reset()
		c.earliestDiscovery.Store(asked.Add(minDiscoveryInterval).UnixNano())
		next = asked.Add(interval())
	}
}

// awaitDiscovery waits until the next discovery is due: at a time, or when the loop wants
// one before that.
func (c *Controller) awaitDiscovery(ctx context.Context, next time.Time) bool {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		at := next
		if want := c.nextDiscovery.Load(); want != 0 && want < at.UnixNano() {
			at = time.Unix(0, max(want, c.earliestDiscovery.Load()))
		}
		timer.Reset(time.Until(at))
		select {
		case <-ctx.Done():
			return false
		case <-c.discoveryDue:
		case <-timer.C:
			return true
		}
	}
}

// scheduleDiscovery informs the poller when the definitions want the next discovery.
func (c *Controller) scheduleDiscovery() {
	var at int64
	if t := c.definitions.next(); !t.IsZero() {
		at = t.UnixNano()
	}
	if c.nextDiscovery.Swap(at) == at {
		return
	}
	select {
	case c.discoveryDue <- struct{}{}:
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
		_ = c.inLoop(ctx, func(now time.Time) { c.discoveryFailed(now, err) })
		return d, fmt.Errorf("discover types: %w", err)
	}
	c.metrics.discoveries.WithLabelValues("done").Inc()
	return d, c.inLoop(ctx, func(now time.Time) {
		c.discovered(now, asked, d)
		c.scheduleDiscovery()
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
