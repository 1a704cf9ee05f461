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

// scrapes is the number of measured scrapes. One more comes first and is not counted.
const scrapes = 30

// scrape is the cost of one scrape.
type scrape struct {
	took   time.Duration // median, as the scraper sees it
	cpu    time.Duration // of the agent, mean of all
	series int
	bytes  int
}

// measureScrapes scrapes the metrics as Prometheus does, one scrape after the other. Pauses between
// them let the agent come to rest.
func measureScrapes(ctx context.Context, p *agentrun.Process) (s scrape, err error) {
	var times []time.Duration
	var before process.Usage
	for i := range scrapes + 1 {
		if i == 1 { // connections, buffers and caches exist now
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
