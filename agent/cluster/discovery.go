package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// scheduleDiscovery schedules the discovery that is due next because of definitions.
func (c *Controller) scheduleDiscovery() { c.poller.Want(c.types.definitions.Next()) }

var errNoTypes = errors.New("the API server names no types at all")

// discover asks once which types are served, and has the loop apply the answer.
//
// A failed discovery, or a failed part of one, changes nothing. A resource stays followed in its
// version as long as that is served. A type is gone if its definition was seen to be deleted. It is
// also gone if discovery lacks it for long, and its own list and watch are answered a bare 404.
// Discovery alone is no proof: the server that answers it may be older than the one that serves the
// type.
func (c *Controller) discover(ctx context.Context) error {
	asked := time.Now()
	d, err := c.api.Discover(ctx)
	if err == nil && len(d.Types) == 0 {
		err = errNoTypes // kubernetes issue 60037: an empty answer proves nothing
	}
	if err != nil {
		c.metrics.discoveries.WithLabelValues("failed").Inc()
		_ = c.loop.do(ctx, func(now time.Time) { c.discoveryFailed(now, err) })
		return fmt.Errorf("discover types: %w", err)
	}
	c.metrics.discoveries.WithLabelValues("done").Inc()
	return c.loop.do(ctx, func(now time.Time) {
		c.discovered(now, asked, d)
		c.scheduleDiscovery()
	})
}

func (c *Controller) discoveryFailed(now time.Time, err error) {
	st := *c.server.status.Load()
	if st.discovery == "" {
		c.log.Warn("cannot discover types; known types are still collected", "reason", err.Error())
	}
	st.discovery = err.Error()
	c.server.status.Store(&st)
	c.publish(now)
}
