package main

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/process"
)

// heapRounds is how often each is measured. The live heap is as of the latest garbage collection,
// which also counts what was allocated just before.
const heapRounds = 3

// measureHeap starts ebb with many objects of each kind, none of them due: with all collectors off,
// with each collector alone, and with all of them.
func measureHeap(ctx context.Context, b *fixture, f figures) error {
	later := time.Now().Add(24 * time.Hour)
	all := map[string]any{}
	for _, k := range kinds {
		n := k.many(b.options)
		if err := b.Fill(ctx, sequence(n, func(i int) runtime.Object { return k.make(i, later) })); err != nil {
			return err
		}
		settings := map[string]any{"mode": "observe"}
		if k.name == "pods" {
			settings["keep"] = -1
		}
		all[k.name] = settings
	}
	lives := map[string][]float64{}
	for range heapRounds {
		for _, name := range []string{"off", "pods", "jobs", "csrs", "observe"} {
			settings := map[string]any{name: all[name]}
			if name == "off" {
				settings = nil
			} else if name == "observe" {
				settings = all
			}
			live, err := b.cost(ctx, f, name, settings)
			if err != nil {
				return err
			}
			lives[name] = append(lives[name], live)
		}
	}
	for _, k := range kinds {
		f.set(k.name+"_heap_bytes_per_object", (result.Median(lives[k.name])-result.Median(lives["off"]))/float64(k.many(b.options)))
	}
	return nil
}

// cost measures ebb with some collectors on, and returns its live heap in bytes.
func (b *fixture) cost(ctx context.Context, f figures, name string, collectors map[string]any) (live float64, err error) {
	began := time.Now()
	err = b.ebbWith(collectors).Run(ctx, func(pid int) error {
		if err := benchmark.Until(ctx, 20*time.Millisecond, longest, "ebb has not listed everything", b.Ebb.Ready); err != nil {
			return err
		}
		ready := time.Since(began).Seconds()
		u, err := process.UsageOf(pid)
		if err != nil {
			return err
		}
		f.set(name+"_ready_s", ready)
		f.set(name+"_ready_cpu_s", u.CPU.Seconds())
		f.set(name+"_ready_read_mib", float64(u.ReadBytes)/process.MiB)
		if err := benchmark.Pause(ctx, b.rest); err != nil {
			return err
		}
		if u, err = process.UsageOf(pid); err != nil {
			return err
		}
		live, err = b.Ebb.Heap(ctx)
		f.set(name+"_rss_mib", u.RSSMiB())
		f.set(name+"_heap_mib", live/process.MiB)
		benchmark.Say("%-8s ready after %.2f s, %.2f s of CPU, %.0f MiB read; heap %.1f MiB, RSS %.0f MiB",
			name, ready, f[name+"_ready_cpu_s"], f[name+"_ready_read_mib"], f[name+"_heap_mib"], u.RSSMiB())
		return err
	})
	return live, err
}
