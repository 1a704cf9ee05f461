package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/startrace"
)

// measureRace has a real kubelet start pods while the agent, killed now and then,
// removes images.
func measureRace(ctx context.Context, s settings, f *figures) (err error) {
	n, err := node.Start(ctx, node.Config{Name: "bench-race", SizeBytes: 320 * mib})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	k, err := peers.StartKubelet(ctx, peers.KubeletConfig{Node: n, Configuration: map[string]any{
		"imageGCHighThresholdPercent": 100, "fileCheckFrequency": "1s", "syncFrequency": "2s",
		// Off: on containerd 1.6, where nothing is pinned, it removes the sandbox image, too.
		"evictionHard": map[string]any{
			"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%",
		},
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	c, err := raceConfig(n, k)
	if err != nil {
		return err
	}
	var images, kept atomic.Int64
	start := func() (*agentrun.Process, error) {
		return agentrun.Start(ctx, agentrun.Options{Binary: s.agent, Dir: n.Dir(), Config: c, OnLine: func(l agentrun.Line) {
			switch l.Message {
			case "image removed":
				images.Add(1)
			case "image stays after all":
				kept.Add(1)
			}
		}})
	}
	p, err := start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop(), agentrun.Unload(c)) }()
	u, err := n.Usage()
	if err != nil {
		return err
	}
	// Places for about half of the images.
	if err := n.FillTo("fill", 78-100*15*startrace.ImageBytes/float64(u.CapacityBytes)); err != nil {
		return err
	}
	r, err := startrace.Run(ctx, startrace.Options{
		Node: n, Kubelet: k, Starts: s.starts, Seed: uint64(time.Now().UnixNano()), KillEvery: 20,
		Kill: func(context.Context) error {
			if err := p.Kill(); err != nil {
				return err
			}
			next, err := start()
			if err == nil {
				p = next
			}
			return err
		},
		Say: func(format string, args ...any) { say("race: "+format, args...) },
	})
	f.race = &race{
		Started: r.Started, Permanently: r.Permanently, Transiently: r.Transiently, Missing: r.Missing,
		Removed: int(images.Load()), Kept: int(kept.Load()), NoSpace: r.NoSpace, DiskFull: r.DiskFull, Kills: r.Kills,
	}
	say("race: %d pods started, %d failed for good, %d for a moment; %d images removed, %d kept at the last moment; the agent was killed %d times",
		r.Started, r.Permanently, r.Transiently, f.Removed, f.Kept, r.Kills)
	if len(r.Failures) > 0 {
		err = errors.Join(err, fmt.Errorf("pods failed for good:\n  %s", quote(r.Failures)))
	}
	return err
}

// raceConfig is of an agent that asks the kubelet for its pods, and spares no image
// for its age.
func raceConfig(n *node.Node, k *peers.Kubelet) (config.Config, error) {
	c := agentrun.ConfigFor(n)
	c.Images.MinimumAge, c.Images.MaxRemovalsPerHour = 0, 100000
	c.Filesystems.Kubelet.Path, c.Filesystems.PodLogs.Path, c.Containers.LogLinks = k.RootDir(), k.PodLogsDir(), k.ContainerLogsDir()
	files, err := k.ClientFiles(peers.User{Name: "ebb-agent", Groups: []string{"system:masters"}})
	c.Pods.Source = config.PodsFromKubelet
	c.Pods.Kubelet = config.Kubelet{URL: k.URL(), ClientCertificate: files.Cert, ClientKey: files.Key, CertificateAuthority: files.CA}
	return c, err
}
