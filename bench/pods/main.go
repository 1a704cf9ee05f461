// Command pods counts the requests that the pod sources of many agents send to one API server: at
// the start, idle, after an outage of the connection, and after an outage of the server. The API
// server is a real one, and its audit log has the counts.
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

// options are the flags. The agents' own timing is not changed.
type options struct {
	agents, pods                int
	idle, outage, after, spread time.Duration
	results                     string
}

// figures are written to pods.json: the number of agents, the durations in seconds, and the figures
// of each phase. The phases are start, idle, back (of the connection, after an outage) and restart
// (of the server, after an outage).
//
//	_requests_per_agent_min   of all kinds, while the phase lasted
//	_lists_per_agent          in the whole phase; also _newest_ and _watches_
//	_lists_peak_s             most in any ten seconds, per second
//	_known_s                  until the last agent knew its pods again
type figures map[string]float64

func main() {
	var o options
	flag.IntVar(&o.agents, "agents", 500, "how many agents, each of a node of its own")
	flag.IntVar(&o.pods, "pods", 4, "pods of each")
	flag.DurationVar(&o.idle, "idle", 15*time.Minute, "how long nothing happens; a watch lives for 5 to 10 minutes")
	flag.DurationVar(&o.outage, "outage", time.Minute, "how long the server is away")
	flag.DurationVar(&o.after, "after", 2*time.Minute, "how long to count after an outage")
	flag.DurationVar(&o.spread, "spread", 0, "the time within which lists are spread after an outage; 0: the agent's default")
	flag.StringVar(&o.results, "results", result.Dir, "where pods.json goes")
	benchmark.MainOrRender("bench-pods", func() error { return render(o.results) }, func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) (err error) {
	b, err := newFixture(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	phases, err := b.measure(ctx)
	if err != nil {
		return err
	}
	f := figures{"agents": float64(o.agents), "pods_per_node": float64(o.pods),
		"idle_s": o.idle.Seconds(), "outage_s": o.outage.Seconds(), "after_s": o.after.Seconds()}
	requests, err := b.requests()
	if err != nil {
		return err
	}
	for _, p := range phases {
		if err := f.add(p, requests, o.agents); err != nil {
			return err
		}
	}
	fmt.Fprint(os.Stderr, f.markdown())
	if err := result.Write(o.results, "pods", f); err != nil {
		return err
	}
	return render(o.results)
}

// measure takes the agents through all phases and then stops them: only then are their last watches
// in the audit log.
func (b *fixture) measure(ctx context.Context) (phases []phase, err error) {
	begin := func(name string) *phase {
		fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format(time.TimeOnly), name)
		phases = append(phases, phase{name: name, from: time.Now()})
		return &phases[len(phases)-1]
	}
	back := func(p *phase, pods int) error {
		if err := b.awaitPods(ctx, pods); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		p.known = time.Since(p.from)
		return benchmark.Pause(ctx, b.o.after-p.known)
	}
	p := begin("start")
	b.start(ctx)
	if err := b.awaitPods(ctx, b.o.pods); err != nil {
		return nil, err
	}
	p.known, p.until = time.Since(p.from), time.Now()
	p = begin("idle")
	if err := benchmark.Pause(ctx, b.o.idle); err != nil {
		return nil, err
	}
	p.until = time.Now()

	b.relay.Away()
	if err := errors.Join(b.eachPod(ctx, false, b.o.pods-1), benchmark.Pause(ctx, b.o.outage)); err != nil {
		return nil, err
	}
	p = begin("back")
	b.relay.Back()
	if err := back(p, b.o.pods-1); err != nil {
		return nil, err
	}
	p.until = time.Now()

	if err := b.restart(ctx); err != nil {
		return nil, err
	}
	p = begin("restart")
	b.relay.Back()
	if err := b.eachPod(ctx, true, b.o.pods); err != nil {
		return nil, err
	}
	if err := back(p, b.o.pods); err != nil {
		return nil, err
	}
	p.until = time.Now()
	return phases, b.stop(ctx)
}
