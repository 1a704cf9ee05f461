package node

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/wait"
)

// dialMost bounds the wait between two attempts to reach the runtime. An attempt is cheap, and a node
// whose containerd has just started should not stay unwatched.
const dialMost = 10 * time.Second

// connect is the connector's goroutine: it dials until the runtime answers,
// hands the connection to the loop, and then watches its events, which
// includes reconnecting.
func (a *Agent) connect(ctx context.Context) error {
	pause := retryFirst
	for {
		rt, err := a.dial(ctx)
		if err == nil {
			select {
			case a.in.connected <- rt:
			case <-ctx.Done():
				return rt.Close()
			}
			return ignoreDone(ctx, a.in.watch(ctx, rt))
		}
		if ctx.Err() != nil {
			return nil
		}
		a.metrics.dialFailures.Inc()
		a.health.setReady(err.Error())
		a.conditions.Begin(runtimeAway, slog.LevelWarn, "the container runtime does not answer; trying again", "error", err, "next", pause.String())
		if !wait.Sleep(ctx, pause) {
			return nil
		}
		pause = min(2*pause, dialMost)
	}
}

// watch copies the runtime's events into the inbox, and signals them on news.
func (in *inbox) watch(ctx context.Context, rt Runtime) error {
	g, ctx := errgroup.WithContext(ctx)
	fromRuntime := make(chan inventory.Event)
	g.Go(func() error { return rt.Watch(ctx, fromRuntime) })
	g.Go(func() error {
		for {
			select {
			case e := <-fromRuntime:
				select {
				case in.events <- e:
				case <-ctx.Done():
					return ctx.Err()
				}
				select {
				case in.news <- struct{}{}:
				default: // signalled already, and not received yet
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return g.Wait()
}
