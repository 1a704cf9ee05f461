package node

import (
	"context"
	"log/slog"
	"time"
)

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
		wait = min(2*wait, retryMost)
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
