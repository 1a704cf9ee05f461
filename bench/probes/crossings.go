package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sort"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/bpf"
	mounts "github.com/ebb-agent/ebb/runtime/fs"
	"github.com/ebb-agent/ebb/tools/loopfs"
)

// soon is how long after the write an event counts as in time.
const soon = 100 * time.Millisecond

// grace is how long to wait for a missed event, to distinguish a process that got no CPU from an
// event that was never sent.
const grace = 3 * time.Second

// crossings has the results of random crossings.
type crossings struct {
	Happened int     `json:"happened"` // by the filesystem's own account
	Missed   int     `json:"missed"`
	Unraised int     `json:"missed_by_kernel"`  // of those: not raised before the write returned
	Early    int     `json:"early"`             // events before statfs showed the crossing
	MostFree uint64  `json:"early_most_blocks"` // how far from the watermark the earliest was
	P50      float64 `json:"seen_p50_ms"`
	P99      float64 `json:"seen_p99_ms"`
	Max      float64 `json:"seen_max_ms"`

	took    []float64      // ms from the write's return to the event's receipt
	earlyBy map[string]int // by way
}

// chase brings one filesystem after the other to a watermark and measures how soon user space
// receives the event.
type chase struct {
	probes *bpf.Probes
	events <-chan event
	random *rand.Rand
	found  map[string]*crossings
}

// event is a crossing and the time at which it was received.
type event struct {
	bpf.Crossing
	seen uint64 // CLOCK_BOOTTIME
}

func measureCrossings(ctx context.Context, b *fixture, s settings, figures map[string]any) (err error) {
	pinDir := filepath.Join(b.dir, "pins-of-crossings")
	p, err := loadProbes(ctx, pinDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(), removePins(pinDir)) }()
	report, err := bpf.ReadReport(ctx, pinDir, 0)
	if err != nil {
		return err
	}
	figures["map_memory_mib"] = result.Round(float64(report.MapBytes) / mib)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seed := uint64(time.Now().UnixNano())
	benchmark.Say("random crossings, seed %d", seed)
	c := &chase{probes: p, events: receive(ctx, p), random: rand.New(rand.NewPCG(seed, 0)), found: map[string]*crossings{}}
	var all crossings
	for _, kind := range []string{"ext4", "xfs", "btrfs"} {
		c.found[kind] = &crossings{earlyBy: map[string]int{}}
		if err := c.onSmall(ctx, filepath.Join(b.dir, "small-"+kind), kind, (s.crossings+2)/3); err != nil {
			return fmt.Errorf("crossings on %s: %w", kind, err)
		}
		f := c.found[kind]
		f.P50, f.P99, f.Max = percentiles(f.took)
		all.Happened, all.Missed, all.Unraised = all.Happened+f.Happened, all.Missed+f.Missed, all.Unraised+f.Unraised
		all.took = append(all.took, f.took...)
		benchmark.Say("%s: %d crossings, %d missed, %d events early by at most %d blocks (%v); p99 %.2f ms",
			kind, f.Happened, f.Missed, f.Early, f.MostFree, f.earlyBy, f.P99)
	}
	_, figures["crossing_seen_p99_ms"], figures["crossing_seen_max_ms"] = percentiles(all.took)
	figures["crossings"], figures["crossings_missed"], figures["crossings_missed_by_kernel"] = all.Happened, all.Missed, all.Unraised
	figures["crossings_by_filesystem"], figures["crossings_seed"] = c.found, seed
	return nil
}

func percentiles(ms []float64) (p50, p99, most float64) {
	return result.Round(result.Percentile(ms, 50)), result.Round(result.Percentile(ms, 99)), result.Round(result.Percentile(ms, 100))
}

func removePins(dir string) error {
	if err := bpf.Unload(dir); err != nil {
		return err
	}
	return unix.Unmount(dir, unix.MNT_DETACH)
}

// receive returns the events, each stamped when it is received.
func receive(ctx context.Context, p *bpf.Probes) <-chan event {
	raw, stamped := make(chan bpf.Crossing), make(chan event, 64)
	go func() {
		if err := p.Crossings(ctx, raw); ctx.Err() == nil {
			benchmark.Say("events end: %v", err) // every crossing from now on is missed
		}
	}()
	go func() {
		for {
			select {
			case c := <-raw:
				stamped <- event{c, now()}
			case <-ctx.Done():
				return
			}
		}
	}()
	return stamped
}

func now() uint64 {
	ns, err := bpf.BootTime()
	if err != nil {
		panic(err) // every kernel has the clock
	}
	return ns
}

// metadataEvery is the interval, in rounds, of the ways that take metadata on btrfs. Only a new
// block group of metadata shows there, which takes thousands of files.
const metadataEvery = 8

// onSmall creates a filesystem so small that btrfs's block groups are small, too, and crosses its
// watermark in each way in turn.
func (c *chase) onSmall(ctx context.Context, dir, kind string, times int) (err error) {
	var options []string
	size := int64(gib)
	if kind == "btrfs" {
		options, size = []string{"-m", "single"}, 320*mib
	}
	fs, err := loopfs.New(dir, kind, size, options...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fs.Close()) }()
	found := c.found[kind]
	for round := 0; found.Happened < times; round++ {
		for _, way := range loopfs.Ways {
			if way.Reflink && kind == "ext4" || way.Metadata && kind == "btrfs" && round%metadataEvery != 0 {
				continue
			}
			if err := c.cross(ctx, fs, way); err != nil {
				return fmt.Errorf("%s: %w", way.Name, err)
			}
			err := c.probes.ClearWatermark(fs.Dev)
			if kind == "btrfs" {
				err = errors.Join(err, fs.Clear())
			}
			if err != nil {
				return err
			}
		}
		if err := clearAll(ctx, fs); err != nil {
			return err
		}
	}
	return nil
}

// settleMost bounds the wait for space that xfs gives back in the background.
const settleMost = 10 * time.Second

// clearAll removes what the ways have written, and returns once all that space is free again.
func clearAll(ctx context.Context, fs *loopfs.FS) error {
	if err := fs.Clear(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, settleMost)
	defer cancel()
	_, err := mounts.Settle(ctx, fs.Dir, nil)
	return err
}

// attempt is one attempt to cross a watermark.
type attempt struct {
	*chase
	fs        *loopfs.FS
	way       string
	watermark bpf.Watermark
	since     uint64   // when the watermark was set
	ends      []uint64 // when each step returned
	heard     bool     // an event came since the watermark was set
	last      event    // the latest such event
	found     *crossings
}

// mostSteps ends an attempt that does not reach its watermark: one by metadata, or one on xfs that
// already has more allocated in advance than the distance to the watermark.
const mostSteps = 40000

// depth returns how many blocks away to set the watermark. Some thousands are as frequent as a few
// hundred or one, because ext4 is watched in another way from afar. Ways by reflink or metadata
// have fewer: reflinks run out before, and making files takes long.
func (c *chase) depth(way loopfs.Way) uint64 {
	most := 14.0
	if way.Reflink || way.Metadata {
		most = 10
	}
	return uint64(math.Exp2(most * c.random.Float64()))
}

// cross takes steps until the filesystem itself reports that the watermark is reached.
func (c *chase) cross(ctx context.Context, fs *loopfs.FS, way loopfs.Way) error {
	step, err := way.Begin(fs)
	if err != nil {
		return err
	}
	if err := fs.Sync(); err != nil {
		return err
	}
	free, _, err := fs.Free()
	if err != nil {
		return err
	}
	raise := free - c.depth(way)
	a := &attempt{chase: c, fs: fs, way: way.Name, found: c.found[fs.Kind],
		watermark: bpf.Watermark{RaiseFree: raise, RearmFree: raise + c.random.Uint64N(200)}}
	if err := a.setWatermark(); err != nil {
		return err
	}
	// Each write and the reading of its end must be on the same thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for look := c.random.IntN(150); ; look-- {
		if err := step(); errors.Is(err, unix.ENOSPC) || len(a.ends) == mostSteps {
			return ctx.Err()
		} else if err != nil {
			return err
		}
		a.ends = append(a.ends, now())
		a.collect()
		// On btrfs statfs is correct only after a sync. A sync is a commit, which must not happen
		// at each step.
		if fs.Kind == "btrfs" && !a.heard && look > 0 {
			continue
		}
		look = c.random.IntN(150)
		if done, err := a.judge(); done || err != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}

// collect takes the events that have arrived.
func (a *attempt) collect() {
	for {
		select {
		case e := <-a.events:
			a.take(e)
		default:
			return
		}
	}
}

// take assigns an event to the step that raised it, and records how late it was received.
func (a *attempt) take(e event) {
	if e.Dev != a.fs.Dev || e.BootNS < a.since {
		return
	}
	a.heard, a.last = true, e
	i := sort.Search(len(a.ends), func(i int) bool { return a.ends[i] >= e.BootNS })
	late := 0.0
	if i < len(a.ends) && e.seen > a.ends[i] {
		late = float64(e.seen-a.ends[i]) / 1e6
	}
	a.found.took = append(a.found.took, late)
}

// judge asks the filesystem whether the watermark is reached. If so, it checks whether user space
// has received the event.
func (a *attempt) judge() (done bool, err error) {
	if a.fs.Kind == "btrfs" {
		if err := a.fs.Sync(); err != nil {
			return false, err
		}
		a.ends = append(a.ends, now()) // a commit takes space, too
	}
	free, _, err := a.fs.Free()
	if err != nil {
		return false, err
	}
	if free <= a.watermark.RaiseFree {
		a.await(soon)
		a.found.Happened++
		if !a.heard {
			a.found.Missed++
			again, _, err := a.fs.Free()
			a.await(grace)
			if !a.heard || a.last.BootNS > a.ends[len(a.ends)-1] {
				a.found.Unraised++
			}
			benchmark.Say("missed on %s by %s: %d free, then %d (%v), watermark %d, after %d steps; %s", a.fs.Kind, a.way, free, again, err, a.watermark.RaiseFree, len(a.ends), a.later())
		}
		return true, nil
	}
	if !a.heard {
		return false, nil
	}
	// The event came early. Like the agent, read the free space and set the watermark again.
	a.found.Early++
	a.found.earlyBy[a.way]++
	a.found.MostFree = max(a.found.MostFree, free-a.watermark.RaiseFree)
	return false, a.setWatermark()
}

func (a *attempt) setWatermark() error {
	free, _, err := a.fs.Free()
	if err != nil {
		return err
	}
	a.heard, a.since, a.watermark.Free = false, now(), free
	return a.probes.SetWatermark(a.fs.Dev, a.fs.Kind, a.watermark)
}

// later describes when an event that was not in time came, if it came at all.
func (a *attempt) later() string {
	if !a.heard {
		return "it never came"
	}
	end := a.ends[len(a.ends)-1]
	return fmt.Sprintf("raised %.2f ms and received %.2f ms after the write", float64(int64(a.last.BootNS-end))/1e6, float64(int64(a.last.seen-end))/1e6)
}

// await waits for an event, for at most this time.
func (a *attempt) await(most time.Duration) {
	a.collect()
	deadline := time.NewTimer(most)
	defer deadline.Stop()
	for !a.heard {
		select {
		case e := <-a.events:
			a.take(e)
		case <-deadline.C:
			return
		}
	}
}
