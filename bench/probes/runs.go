package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/loopfs"
)

// measureRuns has the kernel time each program under the workloads and all ways of taking space.
// The kernel reads its clock twice for each run, which adds a few nanoseconds to the figure.
func measureRuns(ctx context.Context, b *fixture, s settings, figures map[string]any) error {
	if err := b.probes.on(true); err != nil {
		return err
	}
	ns, err := b.probes.nsPerRun(func() error {
		for _, w := range workloads {
			if err := runFor(ctx, b, s, w); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
		for _, fs := range b.filesystems() {
			for _, way := range loopfs.Ways {
				if err := stepAlong(fs, way, s.steps); err != nil {
					return fmt.Errorf("%s on %s: %w", way.Name, fs.Kind, err)
				}
			}
		}
		return nil
	})
	if err := errors.Join(err, b.probes.off()); err != nil {
		return fmt.Errorf("time programs: %w", err)
	}
	for name := range ns {
		ns[name] = result.Round(ns[name])
	}
	figures["ns_per_run"] = ns
	benchmark.Say("nanoseconds per run: %v", ns)
	return nil
}

func runFor(ctx context.Context, b *fixture, s settings, w workload) error {
	r, err := w.start(b, runtime.NumCPU()-1)
	if err != nil {
		return err
	}
	defer r.stop()
	if _, err := r.window(s.window); err != nil {
		return err
	}
	return ctx.Err()
}

// stepAlong takes space in one way, for this many steps or until the disk is full, and frees it.
// The image on the disk stays.
func stepAlong(fs *loopfs.FS, way loopfs.Way, steps int) error {
	if way.Reflink && fs.Kind == "ext4" {
		return nil
	}
	step, err := way.Begin(fs)
	for n := 0; err == nil && n < steps; n++ {
		err = step()
	}
	if err != nil && !errors.Is(err, unix.ENOSPC) {
		return err
	}
	return fs.Clear()
}
