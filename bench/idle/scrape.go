package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/process"
)

// scrapes are how many are measured, after one that nobody counts.
const scrapes = 30

// scrape is what one costs.
type scrape struct {
	took   time.Duration // as who scrapes sees it; the median
	cpu    time.Duration // of the agent, for each
	series int
	bytes  int
}

// measureScrapes asks for the metrics as Prometheus does, one after the other, with a pause
// between them, so that each finds an agent at rest.
func measureScrapes(ctx context.Context, p *agentrun.Process) (s scrape, err error) {
	var times []time.Duration
	var before process.Usage
	for i := range scrapes + 1 {
		if i == 1 { // connections, buffers and caches are there now
			if before, err = p.Usage(); err != nil {
				return s, err
			}
		}
		begun := time.Now()
		body, err := p.Get(ctx, "/metrics")
		if err != nil {
			return s, err
		}
		if i > 0 {
			times = append(times, time.Since(begun))
		}
		s.bytes, s.series = len(body), strings.Count("\n"+body, "\n")-strings.Count("\n"+body, "\n#")-1
		if err := benchmark.Pause(ctx, 100*time.Millisecond); err != nil {
			return s, err
		}
	}
	after, err := p.Usage()
	if err != nil {
		return s, err
	}
	s.took, s.cpu = slices.Sorted(slices.Values(times))[len(times)/2], (after.CPU-before.CPU)/scrapes
	return s, nil
}
