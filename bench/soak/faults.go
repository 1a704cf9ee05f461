package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/soak/plan"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/socketrelay"
)

// faults injects faults. Each run injects those of one sort, one after the other.
type faults struct {
	*fixture
	first int // the number of the first operation
	kinds map[string]func(context.Context, plan.Fault) error

	mu    sync.Mutex
	count map[string]int
}

func newFaults(b *fixture, first int) *faults {
	f := &faults{fixture: b, first: first, count: map[string]int{}}
	f.kinds = map[string]func(context.Context, plan.Fault) error{
		"api-killed": f.apiKilled, "api-stopped": f.apiStopped, "all-api-killed": f.allKilled,
		"cut-to-server": f.cut, "cut-to-client": f.cut, "reset": f.reset,
		"leader-killed": f.leaderKilled, "leader-frozen": f.leaderFrozen,
		"etcd-compacted": f.compacted, "etcd-defragmented": f.defragmented, "etcd-paused": f.etcdPaused, "restored": f.restored,
		"throttled": f.throttled, "webhook-refuses": f.refuses, "webhook-breaks": f.refuses,
		"version-withdrawn": f.withdrawn, "discovery-partial": f.partial,
		"extension": f.extensionFault, "extension-restarted": f.extensionRestarted, "extension-away": f.extensionAway,
	}
	return f
}

// run injects faults until ctx ends. It repairs each before it returns.
func (f *faults) run(ctx context.Context, source *plan.Faults) error {
	for {
		next := source.Next()
		if poll(ctx, func() (bool, error) { return int(f.driver.next.Load()) >= f.first+next.At, nil }) != nil || ctx.Err() != nil {
			return nil
		}
		benchmark.Say("fault %s", next)
		begun := time.Now()
		if err := f.inject(ctx, next); err != nil {
			return fmt.Errorf("fault %s: %w", next, err)
		}
		benchmark.Say("fault %s ended after %v", next.Kind, time.Since(begun).Round(100*time.Millisecond))
		f.mu.Lock()
		f.count[next.Kind]++
		f.mu.Unlock()
	}
}

// inject injects one fault and repairs it.
func (f *faults) inject(ctx context.Context, x plan.Fault) error {
	if slices.Contains(plan.Outages, x.Kind) {
		i := f.outages.begin(time.Now())
		defer func() { f.outages.end(i, time.Now()) }()
	}
	return f.kinds[x.Kind](ctx, x)
}

func (f *faults) counts() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.count)
}

// healed returns a context for the repair of a fault, which must be done even at the end.
func healed(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(ctx), 2*time.Minute, errors.New("a fault could not be mended"))
}

func (f *faults) one(which int) *peers.Component { return f.apiServers()[which%2] }

func (f *faults) apiKilled(ctx context.Context, x plan.Fault) error {
	return f.without(ctx, x, f.one(x.Which))
}

func (f *faults) allKilled(ctx context.Context, x plan.Fault) error {
	return f.without(ctx, x, f.apiServers()...)
}

// without stops some components for a while.
func (f *faults) without(ctx context.Context, x plan.Fault, down ...*peers.Component) error {
	for _, c := range down {
		if err := c.Kill(); err != nil {
			return err
		}
	}
	sleep(ctx, x.Lasts)
	ctx, cancel := healed(ctx)
	defer cancel()
	for _, c := range down {
		if err := c.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (f *faults) apiStopped(ctx context.Context, x plan.Fault) error {
	return paused(ctx, f.one(x.Which), 2*x.Lasts)
}

func (f *faults) etcdPaused(ctx context.Context, x plan.Fault) error {
	return paused(ctx, f.cp.Etcd, x.Lasts/2)
}

func paused(ctx context.Context, c *peers.Component, lasts time.Duration) error {
	if err := c.Pause(); err != nil {
		return err
	}
	sleep(ctx, lasts)
	return c.Resume()
}

// cut holds one direction of the connections of one controller, or of both.
func (f *faults) cut(ctx context.Context, x plan.Fault) error {
	d := socketrelay.ToServer
	if x.Kind == "cut-to-client" {
		d = socketrelay.ToClient
	}
	var cut []*controller
	for i, c := range f.controllers {
		if x.Which%3 == i || x.Which%3 == 2 {
			cut = append(cut, c)
			c.relay.Hold(d)
		}
	}
	sleep(ctx, 3*x.Lasts)
	for _, c := range cut {
		if x.Which%2 == 0 {
			c.relay.Cut() // as by a firewall that has lost their state
		}
		c.relay.Release(d)
	}
	return nil
}

func (f *faults) reset(context.Context, plan.Fault) error {
	for _, c := range f.controllers {
		c.relay.Cut()
	}
	return nil
}

// leads waits until a controller leads, and calls do with it.
func (f *faults) leads(ctx context.Context, do func(*controller)) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	_ = poll(ctx, func() (bool, error) {
		c, err := leader(ctx, f.controllers)
		if err == nil {
			do(c)
		}
		return err == nil, nil
	}) // without a leader there is nothing to disturb
	return nil
}

func (f *faults) leaderKilled(ctx context.Context, _ plan.Fault) error {
	return f.leads(ctx, func(c *controller) { c.signal(syscall.SIGKILL) })
}

// leaderFrozen stops the leader for longer than its lease, and then continues it.
func (f *faults) leaderFrozen(ctx context.Context, x plan.Fault) error {
	return f.leads(ctx, func(c *controller) {
		c.signal(syscall.SIGSTOP)
		sleep(ctx, lease+x.Lasts)
		c.signal(syscall.SIGCONT)
	})
}
