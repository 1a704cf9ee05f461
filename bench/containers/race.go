package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync/atomic"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/startrace"
)

// quickKubelet makes the kubelet look at its pods often. Images have no minimum age, for ebb and
// the kubelet.
var quickKubelet = map[string]any{"imageMinimumGCAge": "1ms", "fileCheckFrequency": "1s", "syncFrequency": "2s"}

// handedOver makes the kubelet remove no images.
var handedOver = map[string]any{
	"imageGCHighThresholdPercent": 100,
	"evictionHard": map[string]any{
		"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%",
	},
}

// withRace has a real kubelet, registered with an API server, start pods on a disk with room for
// about half of their images.
func withRace(ctx context.Context, configuration map[string]any, o startrace.Options, do func(*agentrun.Installation, *startrace.Options) error) (err error) {
	n, err := node.Start(ctx, node.Config{Name: "bench-race", SizeBytes: 320 * mib, Containerd: node.V2})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	i, err := agentrun.Install(ctx, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	all := maps.Clone(quickKubelet)
	maps.Copy(all, configuration)
	k, err := i.StartKubelet(ctx, peers.KubeletConfig{Node: n, Configuration: all})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	u, err := n.Usage()
	if err != nil {
		return err
	}
	if err := n.FillTo("fill", 78-100*15*startrace.ImageBytes/float64(u.CapacityBytes)); err != nil {
		return err
	}
	o.Node, o.Kubelet = n, k
	o.Say = func(format string, args ...any) { benchmark.Say("race: "+format, args...) }
	o.Say("seed %d", o.Seed)
	return do(i, &o)
}

// measureRace has the agent remove images during the race, and kills it now and then.
func measureRace(ctx context.Context, s settings, f *figures) error {
	return withRace(ctx, handedOver, startrace.Options{Starts: s.starts, Seed: s.seed, KillEvery: 20}, func(i *agentrun.Installation, o *startrace.Options) (err error) {
		c := i.Config
		c.Images.MinimumAge, c.Images.MaxRemovalsPerHour = 0, "100000"
		var removed, kept atomic.Int64
		start := func() (*agentrun.Process, error) {
			return agentrun.Start(ctx, agentrun.Options{Binary: s.agent, Dir: o.Node.Dir(), Config: c, OnLine: func(l agentrun.Line) {
				switch l.Message {
				case "image removed":
					removed.Add(1)
				case "image kept by the last check":
					kept.Add(1)
				}
			}})
		}
		p, err := start()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.Stop()) }()
		o.Kill = func(context.Context) error {
			if err := p.Kill(); err != nil {
				return err
			}
			next, err := start()
			if err == nil {
				p = next
			}
			return err
		}
		r, err := startrace.Run(ctx, *o)
		f.Race = raceOf(s, r, int(removed.Load()), int(kept.Load()))
		if len(r.Failures) > 0 {
			err = errors.Join(err, fmt.Errorf("pods failed permanently:\n  %s", strings.Join(r.Failures, "\n  ")))
		}
		return err
	})
}

// measureKubeletRace has the kubelet remove images during the race, with its default thresholds. A
// pod that fails permanently is a result here, not an error.
func measureKubeletRace(ctx context.Context, s settings, f *figures) error {
	return withRace(ctx, nil, startrace.Options{Starts: s.kubeletStarts, Seed: s.seed}, func(_ *agentrun.Installation, o *startrace.Options) error {
		r, err := startrace.Run(ctx, *o)
		if err != nil {
			return err
		}
		log, err := os.ReadFile(o.Kubelet.LogFile())
		f.KubeletRace = raceOf(s, r, strings.Count(string(log), "Removing image to free bytes"), 0)
		for _, failure := range r.Failures {
			o.Say("failed permanently: %s", failure)
		}
		return err
	})
}

// raceOf summarizes a race.
func raceOf(s settings, r startrace.Result, removed, kept int) *race {
	benchmark.Say("race: %d pods started, %d failed permanently, %d transiently; the images of %d went while they were bound, and %d of these ran; %d images removed, %d kept at the last moment; the agent was killed %d times",
		r.Started, r.Permanently, r.Transiently, r.Withdrawn, r.WithdrawnRan, removed, kept, r.Kills)
	return &race{
		Seed: s.seed, Started: r.Started, Permanently: r.Permanently, Transiently: r.Transiently,
		Missing: r.Missing, Withdrawn: r.Withdrawn, WithdrawnRan: r.WithdrawnRan,
		Removed: removed, Kept: kept, NoSpace: r.NoSpace, DiskFull: r.DiskFull, Kills: r.Kills,
	}
}
