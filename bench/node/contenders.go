package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/process"
)

const (
	// How long a writer without space retries, and how much of the disk it writes: more than is
	// free, unless images are removed at the same time.
	writerPatience = 15 * time.Second
	writerPercent  = 40
)

// outOfReach are eviction thresholds that are never met.
var outOfReach = map[string]any{
	"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%",
}

// kubeletImages measures the kubelet's image garbage collection. It first looks at the kubelet's
// start, when there is nothing to do. The disk is filled right after that, so that the wait is the
// longest possible.
func kubeletImages(ctx context.Context, o options, f *figures) error {
	return withKubelet(ctx, "bench-kubelet", map[string]any{
		"imageGCHighThresholdPercent": highPercent, "imageGCLowThresholdPercent": lowPercent,
		"imageMinimumGCAge": "1ms", "evictionHard": outOfReach,
	}, func(b *fixture, k *peers.Kubelet) error {
		f.Needed = b.needed(filledPercent, lowPercent)
		benchmark.Say("the disk is full; waiting up to 5 minutes")
		out, err := b.run(ctx, lowPercent, o.slowed(6*time.Minute), o.slowed(3*time.Second))
		if err != nil {
			return err
		}
		all := outcomes{out}
		f.KubeletRuns = len(all)
		f.KubeletReaction, f.KubeletLow, f.KubeletRemoved = all.reaction(50), all.low(), all.removed()
		f.KubeletReactionMean = result.Round(f.KubeletReaction / 2)
		f.KubeletFinal, f.KubeletPulledAgain, f.Usage.Kubelet = all.used(), all.pulledAgain(), all.typical()
		w, l, err := b.writeBeside(ctx, k.PID())
		f.KubeletENOSPC, f.KubeletLoad = w.errors, l
		return err
	})
}

// evictionPeriod is the time between two looks of the eviction manager.
const evictionPeriod = 10 * time.Second

// kubeletEviction measures the kubelet's eviction manager, which acts at 15 % available, before
// anything else. The disk is filled at moments spread over its period.
func kubeletEviction(ctx context.Context, o options, f *figures) error {
	return withKubelet(ctx, "bench-eviction", map[string]any{"imageMinimumGCAge": "1ms"}, func(b *fixture, k *peers.Kubelet) error {
		f.EvictionNeeded = b.needed(filledPercent, evictionPercent)
		begun := time.Now()
		var all outcomes
		for i := range o.evictions {
			// The eviction manager first looks at about the time when the kubelet reports that it
			// is ready.
			offset := evictionPeriod * time.Duration(2*i+1) / time.Duration(2*o.evictions)
			if err := benchmark.Pause(ctx, evictionPeriod-time.Since(begun)%evictionPeriod+offset); err != nil {
				return err
			}
			// Longer than the period: the eviction manager may continue at its next look.
			out, err := b.run(ctx, evictionPercent, o.slowed(time.Minute), evictionPeriod+o.slowed(2*time.Second))
			if err != nil {
				return err
			}
			out.say(f.EvictionNeeded)
			all = append(all, out)
		}
		f.EvictionRuns = o.evictions
		f.EvictionReaction, f.EvictionReactionMean, f.EvictionReactionMax = all.reaction(50), all.mean(), all.reaction(100)
		f.EvictionLow, f.EvictionFinal = all.low(), all.used()
		f.EvictionRemoved, f.EvictionPulledAgain, f.Usage.Eviction = all.removed(), all.pulledAgain(), all.typical()
		if n, err := pressure(k); err != nil {
			return err
		} else if n == 0 { // then a zero beside ebb would mean nothing, either
			return errors.New("the eviction manager's log says nothing of what it did")
		}
		w, l, err := b.writeBeside(ctx, k.PID())
		f.EvictionENOSPC, f.EvictionLoad = w.errors, l
		return err
	})
}

func withKubelet(ctx context.Context, name string, configuration map[string]any, do func(*fixture, *peers.Kubelet) error) (err error) {
	b, err := newFixture(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	k, err := b.installed.StartKubelet(ctx, peers.KubeletConfig{Node: b.node, Configuration: configuration, Log: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	return do(b, k)
}

// pressure returns how often the eviction manager found the node short of something, from its log.
func pressure(k *peers.Kubelet) (int, error) {
	log, err := os.ReadFile(k.LogFile())
	if err != nil {
		return 0, fmt.Errorf("read the kubelet's log: %w", err)
	}
	return strings.Count(string(log), "Eviction manager: attempting to reclaim"), nil
}

// ebbAlone gives ebb the same task several times, because a run takes only seconds.
func ebbAlone(ctx context.Context, o options, f *figures) (err error) {
	b, err := newFixture(ctx, "bench-ebb")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	f.Needed = b.needed(filledPercent, lowPercent)
	b.installed.Config.Images.HighThresholdPercent, b.installed.Config.Images.LowThresholdPercent = highPercent, lowPercent
	a, err := startAgent(ctx, o.agent, b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Stop()) }()
	var all outcomes
	for i := range o.repeats {
		out, err := b.run(ctx, lowPercent, o.slowed(time.Minute), o.slowed(time.Second))
		if err != nil {
			return fmt.Errorf("run %d: %w", i+1, err)
		}
		out.say(f.Needed)
		all = append(all, out)
	}
	f.EbbRuns = o.repeats
	f.EbbReaction, f.EbbReactionMean, f.EbbReactionMax, f.EbbLow = all.reaction(50), all.mean(), all.reaction(100), all.low()
	f.EbbRemoved, f.EbbFinal = all.removed(), all.used()
	f.EbbPulledAgain, f.Usage.Ebb = all.pulledAgain(), all.typical()
	w, l, err := b.writeBeside(ctx, a.PID())
	f.EbbENOSPC, f.EbbLoad = w.errors, l
	return err
}

// startAgent starts an agent as the chart ships it, except for the benchmark's settings of images.
func startAgent(ctx context.Context, binary string, b *fixture) (*agentrun.Process, error) {
	c := b.installed.Config
	// The images are as young as the run.
	c.Images.MinimumAge, c.Images.MaxRemovalsPerHour = 0, "100000"
	return agentrun.Start(ctx, agentrun.Options{Binary: binary, Dir: b.node.Dir(), Config: c})
}

// writeBeside writes more than is free, and returns what that cost the process that should make
// room.
func (b *fixture) writeBeside(ctx context.Context, pid int) (w written, l load, err error) {
	before, err := process.UsageOf(pid)
	if err != nil {
		return w, l, err
	}
	if w, err = b.write(ctx, writerPercent, fullSpeed); err != nil {
		return w, l, err
	}
	after, err := process.UsageOf(pid)
	if err != nil {
		return w, l, err
	}
	r := after.Since(before)
	return w, load{
		CPU: result.Round((after.CPU - before.CPU).Seconds() * 1e3), RSS: result.Round(float64(after.RSSBytes) / mib),
		Switches: result.Round(r.PerSecond * after.At.Sub(before.At).Seconds()), Seconds: result.Round(after.At.Sub(before.At).Seconds()),
	}, nil
}
