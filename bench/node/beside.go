package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/peers"
)

// ebbBeside runs both at their defaults, with images handed over to ebb, and has the
// disk filled again and again by a writer that is faster than a disk. There are
// always images that may go, so that a kubelet under pressure is one too many.
func ebbBeside(ctx context.Context, o options, f *figures) error {
	return withKubelet(ctx, "bench-beside", map[string]any{
		"imageGCHighThresholdPercent": 100, "imageMinimumGCAge": "1ms",
	}, func(b *bed, k *peers.Kubelet) (err error) {
		files, err := k.ClientFiles(peers.User{Name: "ebb-agent", Groups: []string{"system:masters"}})
		if err != nil {
			return err
		}
		a, err := startAgent(ctx, o.agent, b, func(c *config.Config) {
			c.Filesystems.Kubelet.Path, c.Filesystems.PodLogs.Path = k.RootDir(), k.PodLogsDir()
			c.Containers.LogLinks = k.ContainerLogsDir()
			c.Pods.Source = config.PodsFromKubelet
			c.Pods.Kubelet = config.Kubelet{
				URL: k.URL(), ClientCertificate: files.Cert, ClientKey: files.Key, CertificateAuthority: files.CA,
			}
		})
		if err != nil {
			return err
		}
		defer func() {
			if stopped := a.stop(); err == nil {
				err = stopped
			}
		}()
		if err := storm(ctx, b, o.storm, f); err != nil {
			return err
		}
		f.BesidePressure, err = pressure(k)
		return err
	})
}

func storm(ctx context.Context, b *bed, period time.Duration, f *figures) error {
	say("filling the disk again and again, for %v", period)
	random := rand.New(rand.NewPCG(1, 2))
	for begun := time.Now(); time.Since(begun) < period; f.BesideFills++ {
		// At most as much as is free and three images take: more than that remain.
		w, err := b.write(ctx, 10+30*random.Float64(), writerPatience)
		if err != nil {
			return err
		}
		f.BesideENOSPC += w.errors
		if err := poll(ctx, time.Millisecond, time.Minute, func() (bool, error) {
			_, used, err := b.available()
			w.look(used)
			return used < evictionPercent, err
		}); err != nil {
			return err
		}
		f.BesideOverLineS = max(f.BesideOverLineS, result.Round(w.overLine.Seconds()))
		// Anywhere in the ten seconds of the eviction manager.
		if err := pause(ctx, time.Duration(random.IntN(500))*time.Millisecond); err != nil {
			return err
		}
		removed, err := b.settled(ctx, 200*time.Millisecond)
		if err != nil {
			return err
		}
		f.BesideRemoved += removed
		if err := b.empty(); err != nil {
			return err
		}
		if _, err := b.bringBack(ctx); err != nil {
			return err
		}
	}
	return nil
}
