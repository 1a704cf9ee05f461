package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
)

// loss is what a workload loses of its speed to the programs, in percent, and the effect of noise
// alone.
type loss struct {
	Percent float64 `json:"percent"` // the median over all pairs
	// The true median lies between these with 95 % probability.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Control is the same median for pairs of windows that do not differ.
	Control float64 `json:"control"`
	// WallPercent is the loss by the clock instead of by CPU time.
	WallPercent float64 `json:"wall_percent"`
	CPU         float64 `json:"cpu_ns_per_op"` // without programs, the median
	Wall        float64 `json:"wall_ns_per_op"`
	Pairs       int     `json:"pairs"`
}

// fewestPairs is the least number of pairs for a median.
const fewestPairs = 10

func measureLosses(ctx context.Context, b *fixture, s settings, figures map[string]any) error {
	details := map[string]loss{}
	for _, w := range workloads {
		if !s.wants(w.name) && !s.wants(partLosses) {
			continue
		}
		l, err := measureLoss(ctx, b, s, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		details[w.name] = l
		figures[w.name+"_loss_percent"] = l.Percent
		benchmark.Say("%s: %.2f %% lost (%.2f to %.2f; control %.2f); %.0f ns an operation", w.name, l.Percent, l.Low, l.High, l.Control, l.CPU)
	}
	figures["loss"] = details
	return nil
}

// measureLoss runs windows without and with programs in the order ABBA, so that drift affects both
// alike. Neighbouring windows that differ are a pair. Neighbouring windows that do not differ are a
// pair of the control.
func measureLoss(ctx context.Context, b *fixture, s settings, w workload) (l loss, err error) {
	r, err := w.start(b, runtime.NumCPU()-1)
	if err != nil {
		return l, err
	}
	defer r.stop()
	var windows []spent
	for i := range 2 * s.pairs {
		if err := ctx.Err(); err != nil {
			return l, err
		}
		toggle := b.probes.off
		if with(i) {
			toggle = func() error { return b.probes.on(w.near) }
		}
		if err := toggle(); err != nil {
			return l, err
		}
		// Toggling has cooled caches and patched the kernel: let the workload run before it is
		// measured.
		if _, err := r.window(s.window / 10); err != nil {
			return l, err
		}
		did, err := r.window(s.window)
		if err != nil {
			return l, err
		}
		windows = append(windows, did)
	}
	l = judge(windows)
	if l.Pairs < min(s.pairs, fewestPairs) {
		return l, fmt.Errorf("only %d pairs of windows in which anything was done: the windows are too short, or the machine is too busy", l.Pairs)
	}
	return l, nil
}

// with reports whether a window has programs. The order is off, on, on, off, and so on.
func with(window int) bool { return window%4 == 1 || window%4 == 2 }

func judge(windows []spent) (l loss) {
	var cpu, wall, control, without, clock []float64
	for i := 1; i < len(windows); i++ {
		a, b := windows[i-1], windows[i]
		switch {
		case a.ops == 0 || b.ops == 0: // other processes had the CPU all the time
			continue
		case i%2 == 0:
			control = append(control, lost(a.perOp(), b.perOp()))
			continue
		case with(i - 1):
			a, b = b, a
		}
		cpu = append(cpu, lost(a.perOp(), b.perOp()))
		wall = append(wall, lost(a.wallPerOp(), b.wallPerOp()))
		without, clock = append(without, a.perOp()), append(clock, a.wallPerOp())
	}
	l.Percent, l.WallPercent = result.Round(median(cpu)), result.Round(median(wall))
	l.Low, l.High = interval(cpu)
	l.Control = result.Round(median(control))
	l.CPU, l.Wall, l.Pairs = result.Round(median(without)), result.Round(median(clock)), len(cpu)
	return l
}

func (s spent) perOp() float64     { return float64(s.cpu) / float64(s.ops) }
func (s spent) wallPerOp() float64 { return float64(s.wall) / float64(s.ops) }

// lost returns the share of speed, in percent, that is lost if an operation takes b instead of a.
func lost(a, b float64) float64 { return 100 * (1 - a/b) }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// interval returns the bounds between which the median lies with 95 % probability, whatever the
// distribution. These are two order statistics: the sign test turned around, by the normal
// approximation of the binomial distribution.
func interval(values []float64) (low, high float64) {
	sorted := slices.Sorted(slices.Values(values))
	n := float64(len(sorted))
	reach := 1.96 * math.Sqrt(n) / 2
	at := func(i float64) float64 {
		return result.Round(sorted[min(max(int(i), 0), len(sorted)-1)])
	}
	return at(math.Floor(n/2 - reach)), at(math.Ceil(n/2 + reach - 1))
}
