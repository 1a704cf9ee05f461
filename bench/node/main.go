// Command node puts ebb-agent and the real kubelet before the same task, one after
// the other, each on a throwaway node of its own: eight images that nothing uses, and
// a disk that is suddenly fuller than it should be. How soon is there room again,
// how many images did it take, what is left of the cache? A fourth node has both,
// and asks whether the kubelet's eviction manager finds anything to do.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ebb-agent/ebb/bench/result"
)

// The task, the same for all.
const (
	unusedImages  = 8
	imagePercent  = 8  // of the disk, that each of them frees
	highPercent   = 80 // the line, where it can be set
	lowPercent    = 60 // and the target
	filledPercent = 87
	// The kubelet's defaults: its eviction manager's line, which it wants to be
	// below again.
	evictionPercent = 85
)

type options struct {
	agent   string
	idle    time.Duration // how long an idle process is watched
	storm   time.Duration
	repeats int // of ebb's part, which takes seconds

	evictions int // of the eviction manager's part
	only      string
	results   string // "": nothing is written
}

const resultsDir = "bench/results"

func main() {
	var o options
	flag.StringVar(&o.agent, "agent", "bin/ebb-agent", "the ebb-agent binary to measure")
	flag.DurationVar(&o.idle, "idle", time.Minute, "how long to watch each process with nothing to do")
	flag.DurationVar(&o.storm, "storm", time.Minute, "how long to fill the disk of ebb beside the kubelet")
	flag.IntVar(&o.repeats, "repeats", 7, "how often ebb is put before the task")
	flag.IntVar(&o.evictions, "evictions", 3, "how often the eviction manager is")
	flag.StringVar(&o.only, "only", "", "one of ebb, beside, eviction, kubelet; then nothing is written, unless -results says where")
	flag.StringVar(&o.results, "results", "", "where node.json and node.svg go; RESULTS.md is beside it (default "+resultsDir+")")
	again := flag.Bool("render", false, "only write node.svg and RESULTS.md again, from node.json")
	flag.Parse()
	if o.results == "" && (o.only == "" || *again) {
		o.results = resultsDir
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *again {
		err = render(o.results)
	} else {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-node:", err)
		os.Exit(1)
	}
}

// run takes the quick parts first: what is broken shows early.
func run(ctx context.Context, o options) (err error) {
	if o.agent, err = filepath.Abs(o.agent); err != nil {
		return err
	}
	f := figures{High: highPercent, Low: lowPercent, Filled: filledPercent}
	parts := []struct {
		name, what string
		run        func(context.Context, options, *figures) error
	}{
		{"ebb", "ebb alone", ebbAlone},
		{"eviction", "the kubelet with its default eviction thresholds, which it looks at every 10 s", kubeletEviction},
		{"beside", "ebb beside that kubelet", ebbBeside},
		{"kubelet", "the kubelet's image garbage collection alone, every 5 minutes", kubeletImages},
	}
	if err := f.machine(); err != nil {
		return err
	}
	begun := time.Now()
	for i, p := range parts {
		if o.only != "" && o.only != p.name {
			continue
		}
		say("%d of %d: %s", i+1, len(parts), p.what)
		if err := p.run(ctx, o, &f); err != nil {
			return fmt.Errorf("%s: %w", p.what, err)
		}
	}
	say("took %v", time.Since(begun).Round(time.Second))
	if err := printTable(os.Stderr, f); err != nil {
		return err
	}
	if o.results == "" {
		return nil
	}
	if err := result.Write(o.results, "node", f); err != nil || len(f.chart().Lines) == 0 {
		return err
	}
	return render(o.results)
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

var errNothing = errors.New("nothing happened in time")

// poll asks until f says yes.
func poll(ctx context.Context, every, timeout time.Duration, f func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w: %v", errNothing, timeout))
	defer cancel()
	for {
		if done, err := f(); done || err != nil {
			return err
		}
		if err := pause(ctx, every); err != nil {
			return err
		}
	}
}
