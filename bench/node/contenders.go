package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/peers"
)

const (
	// What an idle process is given to come to rest.
	restTime = 15 * time.Second
	// How long a writer without space goes on trying, and how much of the disk it
	// writes: more than there is room for, unless images go meanwhile.
	writerPatience = 15 * time.Second
	writerPercent  = 40
)

// outOfReach are eviction thresholds that are never met.
var outOfReach = map[string]any{
	"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%",
}

// kubeletImages: the first look is at the start, where there is nothing to do; the
// disk is filled right after it, so that the wait is the longest there is. While it
// lasts, the kubelet is idle.
func kubeletImages(ctx context.Context, o options, f *figures) error {
	return withKubelet(ctx, "bench-kubelet", map[string]any{
		"imageGCHighThresholdPercent": highPercent, "imageGCLowThresholdPercent": lowPercent,
		"imageMinimumGCAge": "1ms", "evictionHard": outOfReach,
	}, func(b *bed, k *peers.Kubelet) error {
		f.Needed = b.needed(filledPercent, lowPercent)
		idle := make(chan error, 1)
		go func() {
			rate, rss, err := watch(ctx, k.PID(), o.idle)
			f.KubeletIdleCPU, f.KubeletIdleSwitches, f.KubeletRSS = rate.CPUPercent, rate.PerSecond, rss
			idle <- err
		}()
		say("the disk is full; waiting up to 5 minutes")
		out, err := b.run(ctx, lowPercent, 6*time.Minute, 3*time.Second)
		if err := errors.Join(err, <-idle); err != nil {
			return err
		}
		all := outcomes{out}
		f.KubeletRuns = len(all)
		f.KubeletReaction, f.KubeletLow, f.KubeletRemoved = all.reaction(50), all.low(), all.removed()
		f.KubeletFinal, f.KubeletPulledAgain, f.Usage.Kubelet = all.used(), all.pulledAgain(), all.typical()
		w, l, err := b.writeBeside(ctx, k.PID())
		f.KubeletENOSPC, f.KubeletLoad = w.errors, l
		return err
	})
}

// evictionPeriod is how often the eviction manager looks.
const evictionPeriod = 10 * time.Second

// kubeletEviction: its eviction manager acts at 15 % available, before anything
// else. The disk is filled at moments spread over its period.
func kubeletEviction(ctx context.Context, o options, f *figures) error {
	return withKubelet(ctx, "bench-eviction", map[string]any{"imageMinimumGCAge": "1ms"}, func(b *bed, k *peers.Kubelet) error {
		f.EvictionNeeded = b.needed(filledPercent, evictionPercent)
		begun := time.Now()
		var all outcomes
		for i := range o.evictions {
			// It begins with a look, about when it says that it is ready.
			offset := evictionPeriod * time.Duration(2*i+1) / time.Duration(2*o.evictions)
			if err := pause(ctx, evictionPeriod-time.Since(begun)%evictionPeriod+offset); err != nil {
				return err
			}
			// Longer than its period: it may go on at its next look.
			out, err := b.run(ctx, evictionPercent, time.Minute, evictionPeriod+2*time.Second)
			if err != nil {
				return err
			}
			out.say(f.EvictionNeeded)
			all = append(all, out)
		}
		f.EvictionRuns = o.evictions
		f.EvictionReaction, f.EvictionLow, f.EvictionFinal = all.reaction(50), all.low(), all.used()
		f.EvictionRemoved, f.EvictionPulledAgain, f.Usage.Eviction = all.removed(), all.pulledAgain(), all.typical()
		if n, err := pressure(k); err != nil {
			return err
		} else if n == 0 { // then zero would mean nothing beside ebb, either
			return errors.New("the eviction manager's log says nothing of what it did")
		}
		w, l, err := b.writeBeside(ctx, k.PID())
		f.EvictionENOSPC, f.EvictionLoad = w.errors, l
		return err
	})
}

func withKubelet(ctx context.Context, name string, configuration map[string]any, do func(*bed, *peers.Kubelet) error) (err error) {
	b, err := newBed(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.node.Close()) }()
	k, err := peers.StartKubelet(ctx, peers.KubeletConfig{Node: b.node, Configuration: configuration, Log: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	return do(b, k)
}

// pressure is how often the eviction manager found the node short of something.
func pressure(k *peers.Kubelet) (int, error) {
	log, err := os.ReadFile(k.LogFile())
	if err != nil {
		return 0, fmt.Errorf("read the kubelet's log: %w", err)
	}
	return strings.Count(string(log), "Eviction manager: attempting to reclaim"), nil
}

// ebbAlone does the same several times, because it can.
func ebbAlone(ctx context.Context, o options, f *figures) (err error) {
	b, err := newBed(ctx, "bench-ebb")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.node.Close()) }()
	f.Needed = b.needed(filledPercent, lowPercent)
	a, err := startAgent(ctx, o.agent, b, func(c *config.Config) {
		c.Images.HighThresholdPercent, c.Images.LowThresholdPercent = highPercent, lowPercent
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	var all outcomes
	for i := range o.repeats {
		out, err := b.run(ctx, lowPercent, time.Minute, time.Second)
		if err != nil {
			return fmt.Errorf("run %d: %w", i+1, err)
		}
		out.say(f.Needed)
		all = append(all, out)
	}
	f.EbbRuns = o.repeats
	f.EbbReaction, f.EbbReactionMax, f.EbbLow = all.reaction(50), all.reaction(100), all.low()
	f.EbbRemoved, f.EbbFinal = all.removed(), all.used()
	f.EbbPulledAgain, f.Usage.Ebb = all.pulledAgain(), all.typical()
	w, l, err := b.writeBeside(ctx, a.process.PID())
	if err != nil {
		return err
	}
	f.EbbENOSPC, f.EbbLoad = w.errors, l
	say("the writer met %d errors", w.errors)
	if err := b.empty(); err != nil {
		return err
	}
	if _, err := b.bringBack(ctx); err != nil {
		return err
	}
	rate, rss, err := watch(ctx, a.process.PID(), o.idle)
	f.EbbIdleCPU, f.EbbIdleSwitches, f.EbbRSS = rate.CPUPercent, rate.PerSecond, rss
	return err
}

// agent is an ebb-agent beside a bed.
type agent struct {
	process *agentrun.Process
	config  config.Config
}

func startAgent(ctx context.Context, binary string, b *bed, change func(*config.Config)) (agent, error) {
	c := agentrun.ConfigFor(b.node)
	// The images are as young as the run.
	c.Images.MinimumAge, c.Images.MaxRemovalsPerHour = 0, 100000
	change(&c)
	p, err := agentrun.Start(ctx, agentrun.Options{Binary: binary, Dir: b.node.Dir(), Config: c})
	if err != nil {
		return agent{}, errors.Join(err, agentrun.Unload(c))
	}
	return agent{p, c}, nil
}

func (a agent) stop() error { return errors.Join(a.process.Stop(), agentrun.Unload(a.config)) }

// writeBeside has a writer want more than there is, and says what that cost the
// process that makes room, or does not.
func (b *bed) writeBeside(ctx context.Context, pid int) (w written, l load, err error) {
	before, err := peers.UsageOf(pid)
	if err != nil {
		return w, l, err
	}
	if w, err = b.write(ctx, writerPercent, fullSpeed); err != nil {
		return w, l, err
	}
	after, err := peers.UsageOf(pid)
	if err != nil {
		return w, l, err
	}
	r := after.Since(before)
	return w, load{
		CPU: result.Round((after.CPU - before.CPU).Seconds() * 1e3), RSS: result.Round(float64(after.RSSBytes) / mib),
		Switches: result.Round(r.PerSecond * after.At.Sub(before.At).Seconds()), Seconds: result.Round(after.At.Sub(before.At).Seconds()),
	}, nil
}

// watch lets a process come to rest, and then says what it uses, and its memory
// in MiB.
func watch(ctx context.Context, pid int, period time.Duration) (peers.Rate, float64, error) {
	if err := pause(ctx, restTime); err != nil {
		return peers.Rate{}, 0, err
	}
	say("watching process %d, which has nothing to do, for %v", pid, period)
	before, err := peers.UsageOf(pid)
	if err != nil {
		return peers.Rate{}, 0, err
	}
	if err := pause(ctx, period); err != nil {
		return peers.Rate{}, 0, err
	}
	after, err := peers.UsageOf(pid)
	if err != nil {
		return peers.Rate{}, 0, err
	}
	r := after.Since(before)
	r.CPUPercent, r.PerSecond = result.Round(r.CPUPercent), result.Round(r.PerSecond)
	return r, result.Round(float64(after.RSSBytes) / mib), nil
}
