package node

import (
	"context"
	"log/slog"
	"time"
)

// dialMost bounds the wait between two attempts to reach the runtime. They cost
// nothing, and a node whose containerd has just come should not go unwatched.
const dialMost = 10 * time.Second

// connect is the connector's goroutine: it dials until the runtime answers,
// hands the connection to the loop, and then watches its events, which
// includes reconnecting.
func (a *Agent) connect(ctx context.Context) error {
	wait := retryFirst
	var told said
	for {
		rt, err := a.dial(ctx)
		if err == nil {
			a.resolverRuntime.Store(&rt)
			select {
			case a.connected <- rt:
			case <-ctx.Done():
				return rt.Close()
			}
			return ignoreDone(ctx, rt.Watch(ctx, a.events))
		}
		if ctx.Err() != nil {
			return nil
		}
		a.metrics.dialFailures.Inc()
		a.setReady(err.Error())
		told.once(a.log, "dial", slog.LevelWarn, "the container runtime does not answer; trying again", "error", err, "next", wait.String())
		if !sleep(ctx, wait) {
			return nil
		}
		wait = min(2*wait, dialMost)
	}
}

// sleep waits unless ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
