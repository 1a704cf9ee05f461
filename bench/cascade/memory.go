package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ebb-agent/ebb/bench/contender"
	"github.com/ebb-agent/ebb/bench/result"
)

const (
	// familySize is how many dependents the owners of tracked objects have.
	familySize = 100
	// restTime is what a process is given to come to rest before its memory counts.
	restTime = 10 * time.Second
)

// measureMemory has each contender track many objects, and delete families among
// them.
func measureMemory(ctx context.Context, b *bed, f *figures) error {
	before, err := b.heap(ctx)
	if err != nil {
		return err
	}
	there := b.watch.count()
	if there >= b.tracked {
		return fmt.Errorf("%d ConfigMaps are there already: want fewer than %d", there, b.tracked)
	}
	contender.Say("making %d objects, for %d in all", b.tracked-there, b.tracked)
	for n := b.watch.count(); n < b.tracked; n = b.watch.count() {
		if _, err := b.makeFamily(ctx, min(familySize, max(1, b.tracked-n-1))); err != nil {
			return err
		}
	}
	for _, c := range []struct {
		contender.Contender
		rss, peak *float64
	}{{b.Ebb.Contender(), &f.RSS, &f.Peak}, {b.fast(), &f.PeerRSS, &f.PeerPeak}} {
		err := b.run(ctx, c.Contender, func(pid int) error {
			if err := contender.Pause(ctx, restTime); err != nil {
				return err
			}
			if *c.rss, _, err = memory(pid); err != nil {
				return err
			}
			for _, policy := range policies {
				if _, err := b.wave(ctx, c.Contender, policy, b.dependents); err != nil {
					return err
				}
			}
			_, *c.peak, err = memory(pid)
			*c.rss, *c.peak = result.Round(*c.rss), result.Round(*c.peak)
			contender.Say("%-12s %.1f MiB with %d objects, %.1f at most", c.Name, *c.rss, b.tracked, *c.peak)
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

// heap is ebb-controller's live heap, as its latest garbage collection has it,
// once it has listed everything. It collects then, to give back what lists took.
func (b *bed) heap(ctx context.Context) (live float64, err error) {
	c := b.Ebb.Contender()
	err = b.run(ctx, c, func(int) error {
		if err := contender.Pause(ctx, restTime); err != nil {
			return err
		}
		live, err = b.Ebb.Metric(ctx, "go_gc_heap_live_bytes")
		return err
	})
	return live, err
}
