// Command account measures the cost of reporting what images take and why they stay. It measures
// the computation alone, the agent's admin socket on a node with thousands of images, and the
// command ebb on that node and from a desk. It also compares the space that a plan promises to free
// with the space that becomes free on the disk.
package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
)

// options are the flags.
type options struct {
	agent, ebb, results, only string
	images, runs              int
	rest                      time.Duration
}

// figures are written to account.json. Each part sets its own:
//
//	graph  account_1k_ms, account_10k_ms, account_100k_ms, each with _low, _high and _cpu, and alloc_10k_mb
//	node   images_page_ms, why_page_ms, plan_page_ms, status_page_ms, each with _max and with
//	       _monitor_wait_max_ms; images_page_mib, monitor_wait_max_ms, rss_mib, peak_rss_mib;
//	       images_command_ms, images_command_max_ms
//	desk   nodes_500_s, nodes_500_max_s, nodes_500_in_flight
//	freed  freed_error_percent_max, freed_error_kib_max, and freed_error_percent_FILESYSTEM
type figures map[string]float64

// set stores a figure, rounded.
func (f figures) set(name string, v float64) {
	f[name] = result.Round(v)
	benchmark.Say("%s %.3f", name, v)
}

// longest is how long the bench waits for one run or for the disk to be at rest.
const longest = 2 * time.Minute

// parts can each be measured separately. They run in this order.
var parts = []benchmark.Part[func(context.Context, options, figures) error]{
	{Name: "graph", Measure: measureGraph}, {Name: "freed", Measure: measureFreed}, {Name: "node", Measure: measureNode},
	{Name: "desk", Measure: measureDesk},
}

func main() {
	var o options
	flag.StringVar(&o.agent, "agent", "bin/ebb-agent", "the ebb-agent binary to measure")
	flag.StringVar(&o.ebb, "ebb", "bin/ebb", "the ebb binary to measure")
	flag.StringVar(&o.results, "results", result.Dir, "where account.json goes")
	flag.StringVar(&o.only, "only", "", "measure only some of: graph, freed, node, desk; then nothing is written, unless -results says where")
	flag.DurationVar(&o.rest, "rest", 20*time.Second, "what the agent is given to come to rest after its start")
	flag.IntVar(&o.images, "images", 10_000, "how many images the node has")
	flag.IntVar(&o.runs, "runs", 15, "how often each is measured")
	flag.Parse()
	benchmark.Main("bench-account", func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) (err error) {
	wanted, err := benchmark.Only(parts, o.only)
	if err != nil {
		return err
	}
	for _, binary := range []*string{&o.agent, &o.ebb} {
		if *binary, err = filepath.Abs(*binary); err != nil {
			return err
		}
	}
	f := figures{}
	for _, p := range wanted {
		if err := p.Measure(ctx, o, f); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return result.Write(result.Whole(o.results, o.only), "account", f)
}
