package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/peers"
)

// ebbBeside runs ebb and the kubelet at their defaults, with images handed over to ebb, and fills
// the disk again and again. There are always images that can be removed, so the eviction manager
// should never find the node under pressure.
func ebbBeside(ctx context.Context, o options, f *figures) error {
	return withKubelet(ctx, "bench-beside", map[string]any{
		"imageGCHighThresholdPercent": 100, "imageMinimumGCAge": "1ms",
	}, func(b *fixture, k *peers.Kubelet) (err error) {
		a, err := startAgent(ctx, o.agent, b)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, a.Stop()) }()
		benchmark.Say("filling the disk again and again, %d %% of it a second, for %v", pacedSpeed, o.storm)
		if f.Beside, err = storm(ctx, b, k, pacedSpeed, o.storm); err != nil {
			return err
		}
		benchmark.Say("the same at the speed of the page cache, for %v", o.storm/2)
		f.Flood, err = storm(ctx, b, k, fullSpeed, o.storm/2)
		return err
	})
}

// pacedSpeed is in percent of the disk per second. On a disk of 100 GiB it would be 10 GiB per
// second.
const pacedSpeed = 10

func storm(ctx context.Context, b *fixture, k *peers.Kubelet, speed float64, period time.Duration) (f besideFigures, err error) {
	before, err := pressure(k)
	if err != nil {
		return f, err
	}
	random := rand.New(rand.NewPCG(1, 2))
	for begun := time.Now(); time.Since(begun) < period; f.Fills++ {
		// At most as much as is free and as five images take, so that some images always remain.
		w, err := b.write(ctx, 10+30*random.Float64(), speed)
		if err != nil {
			return f, err
		}
		if err := benchmark.Until(ctx, time.Millisecond, time.Minute, "nobody made room", func(context.Context) (bool, error) {
			_, used, err := b.available()
			w.look(used)
			return used < evictionPercent, err
		}); err != nil {
			return f, err
		}
		f.ENOSPC += w.errors
		f.OverThreshold = max(f.OverThreshold, result.Round(w.overThreshold.Seconds()))
		// At any moment within the eviction manager's period of ten seconds.
		if err := benchmark.Pause(ctx, time.Duration(random.IntN(500))*time.Millisecond); err != nil {
			return f, err
		}
		removed, err := b.settled(ctx, 200*time.Millisecond)
		if err != nil {
			return f, err
		}
		f.Removed += removed
		if err := b.empty(); err != nil {
			return f, err
		}
		if _, err := b.bringBack(ctx); err != nil {
			return f, err
		}
	}
	after, err := pressure(k)
	f.Pressure = after - before
	return f, err
}
