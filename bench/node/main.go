// Command node gives ebb-agent and the real kubelet the same task, one after the other, each on a
// throwaway node of its own. The node has eight images that nothing uses, and a disk that is
// suddenly fuller than it should be. It measures how soon there is room again, how many images that
// takes, and what is left of the cache. A fourth node runs both, to see whether the kubelet's
// eviction manager finds anything to do.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
)

// The task, the same for all.
const (
	unusedImages  = 8
	imagePercent  = 8  // of the disk, for each of them
	highPercent   = 80 // the threshold, where it can be set
	lowPercent    = 60 // and the target
	filledPercent = 87
	// The default threshold of the kubelet's eviction manager, which stops once usage is below it
	// again.
	evictionPercent = 85
)

type options struct {
	agent   string
	storm   time.Duration
	repeats int // of ebb's part, which takes seconds

	evictions int // of the eviction manager's part
	slow      int // how many times faster a real machine is
	only      string
	results   string
}

// slowed returns how long to wait for something that takes d on a real machine.
func (o options) slowed(d time.Duration) time.Duration { return time.Duration(o.slow) * d }

func main() {
	var o options
	flag.StringVar(&o.agent, "agent", "bin/ebb-agent", "the ebb-agent binary to measure")
	flag.DurationVar(&o.storm, "storm", time.Minute, "how long to fill the disk of ebb beside the kubelet")
	flag.IntVar(&o.repeats, "repeats", 7, "how often ebb is put before the task")
	flag.IntVar(&o.evictions, "evictions", 3, "how often the eviction manager is")
	flag.IntVar(&o.slow, "slow", 1, "for an emulated machine: wait this many times as long for what happens to images")
	flag.StringVar(&o.only, "only", "", "some of ebb, eviction, beside, kubelet; then nothing is written, unless -results says where")
	flag.StringVar(&o.results, "results", result.Dir, "where node.json and node.svg go; RESULTS.md is beside it")
	benchmark.MainOrRender("bench-node", func() error { return render(o.results) }, func(ctx context.Context) error { return run(ctx, o) })
}

// parts run in this order: the quick ones first, so that a fault shows early.
var parts = []benchmark.Part[func(context.Context, options, *figures) error]{
	{Name: "ebb", Measure: ebbAlone}, {Name: "eviction", Measure: kubeletEviction}, {Name: "beside", Measure: ebbBeside}, {Name: "kubelet", Measure: kubeletImages},
}

var what = map[string]string{
	"ebb":      "ebb alone",
	"eviction": "the kubelet with its default eviction thresholds, which it looks at every 10 s",
	"beside":   "ebb beside that kubelet",
	"kubelet":  "the kubelet's image garbage collection alone, every 5 minutes",
}

func run(ctx context.Context, o options) (err error) {
	f := figures{High: highPercent, Low: lowPercent, Filled: filledPercent}
	wanted, err := benchmark.Only(parts, o.only)
	if err != nil {
		return err
	}
	begun := time.Now()
	for i, p := range wanted {
		benchmark.Say("%d of %d: %s", i+1, len(wanted), what[p.Name])
		if err := p.Measure(ctx, o, &f); err != nil {
			return fmt.Errorf("%s: %w", what[p.Name], err)
		}
	}
	benchmark.Say("took %v", time.Since(begun).Round(time.Second))
	fmt.Fprint(os.Stderr, f.text())
	o.results = result.Whole(o.results, o.only)
	if err := result.Write(o.results, "node", f); err != nil {
		return err
	}
	return render(o.results)
}

var errNothing = errors.New("nothing happened in time")
