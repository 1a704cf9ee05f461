package main

import (
	"context"
	"fmt"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/tools/process"
)

// familySize is how many dependents each owner of tracked objects has.
const familySize = 100

// measureMemory makes each contender track many objects, and delete families among them.
func measureMemory(ctx context.Context, b *fixture, f *figures) error {
	before, err := b.heap(ctx)
	if err != nil {
		return err
	}
	there := b.watch.count()
	if there >= b.tracked {
		return fmt.Errorf("%d ConfigMaps are there already: want fewer than %d", there, b.tracked)
	}
	benchmark.Say("making %d objects, for %d in all", b.tracked-there, b.tracked)
	for n := b.watch.count(); n < b.tracked; n = b.watch.count() {
		if _, err := b.makeFamily(ctx, b.one(min(familySize, max(1, b.tracked-n-1)))); err != nil {
			return err
		}
	}
	f.Memory = map[string]memory{}
	for _, c := range []struct {
		name       string
		policies   []gc.Policy
		dependents int
	}{
		{ebbShipped, policies, b.dependents}, {peerFast, policies, b.dependents},
		// The other policies would take this contender half an hour.
		{peerShipped, policies[:1], b.slow},
	} {
		contender := b.contender(c.name)
		err := b.run(ctx, contender, func(pid int) error {
			if err := benchmark.Pause(ctx, b.rest); err != nil {
				return err
			}
			rest, err := process.UsageOf(pid)
			if err != nil {
				return err
			}
			for _, policy := range c.policies {
				if _, err := b.wave(ctx, contender, policy, b.one(c.dependents)); err != nil {
					return err
				}
			}
			after, err := process.UsageOf(pid)
			m := memory{Rest: result.Round(rest.RSSMiB()), Peak: result.Round(after.PeakMiB())}
			f.Memory[c.name] = m
			benchmark.Say("%-18s %.1f MiB with %d objects, %.1f at most", contender.Name, m.Rest, b.tracked, m.Peak)
			return err
		})
		if err != nil {
			return err
		}
	}
	after, err := b.heap(ctx)
	if err != nil {
		return err
	}
	f.Heap = result.Round((after - before) / float64(b.watch.count()-there))
	return nil
}

// heap returns ebb-controller's live heap in bytes, as of its latest garbage collection, after it
// has listed everything. It runs a garbage collection then, to release what the lists took.
func (b *fixture) heap(ctx context.Context) (live float64, err error) {
	c := b.Ebb.Shipped(nil)
	err = b.run(ctx, c, func(int) error {
		if err := benchmark.Pause(ctx, b.rest); err != nil {
			return err
		}
		live, err = b.Ebb.Heap(ctx)
		return err
	})
	return live, err
}
