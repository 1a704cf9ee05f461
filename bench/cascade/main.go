// Command cascade measures ebb-controller and the kube-controller-manager's garbage collector, one
// after the other on the same real API server. It also measures what a client can reach that only
// sends the requests.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/contender"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/policy/gc"
)

// options are the flags.
type options struct {
	*contender.Options
	dependents, rounds int
	slow, tracked      int
	rest               time.Duration
	others             bool
	only               string
}

// figures are written to cascade.json, or with Shapes alone to shapes.json. Contenders have the
// names in contenders.go. Rates are in objects per second.
type figures struct {
	// As shipped, background deletion. Few has few dependents, because the peer's client limits
	// leave no time for more. Shipped has many.
	Few     map[string]measured `json:"shipped_few,omitempty"`
	Shipped map[string]measured `json:"shipped,omitempty"`

	// Contenders at their best, by policy.
	Best map[gc.Policy]map[string]measured `json:"best,omitempty"`
	// The same for background deletion, and ebb as shipped, with an etcd that waits for the disk.
	Fsync map[string]measured `json:"fsync,omitempty"`
	// How long the neighbour waits for an answer while nothing is deleted.
	OthersAlone float64 `json:"others_alone_p99_ms"`

	Memory map[string]memory `json:"memory,omitempty"`
	Heap   float64           `json:"heap_bytes_per_object,omitempty"` // ebb's

	// From the start to the first deletion: ebb as shipped, and the peer without client limits.
	// Broken is beside a type that cannot be listed.
	Ready           float64 `json:"ready_s"`
	PeerReady       float64 `json:"peer_ready_s"`
	ReadyBroken     float64 `json:"ready_broken_s"`
	PeerReadyBroken float64 `json:"peer_ready_broken_s"`

	Shapes map[string]map[string]measured `json:"shapes,omitempty"`
}

// memory is what a contender takes with many objects, in MiB: at rest and at most.
type memory struct {
	Rest float64 `json:"rss_mib"`
	Peak float64 `json:"peak_rss_mib"`
}

// parts and others can each be measured separately. Each has a control plane of its own.
var (
	parts = []benchmark.Part[func(context.Context, *fixture, *figures) error]{
		{Name: "start", Measure: measureStarts}, {Name: "speed", Measure: measureSpeed}, {Name: fsync, Measure: measureFsync},
		{Name: "memory", Measure: measureMemory}, {Name: "broken", Measure: measureBroken},
	}
	others = []benchmark.Part[func(context.Context, *fixture, *figures) error]{{Name: "shapes", Measure: measureShapes}}
)

const fsync = "fsync"

func main() {
	var o options
	o.Options = contender.Flags("cascade")
	flag.IntVar(&o.dependents, "dependents", 5000, "dependents of one owner")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each is measured, in turn")
	flag.IntVar(&o.slow, "slow", 600, "dependents for the peer with its default limits")
	flag.IntVar(&o.tracked, "tracked", 100000, "objects that are tracked when memory is measured")
	flag.DurationVar(&o.rest, "rest", 10*time.Second, "what a process is given to come to rest before its memory counts")
	flag.BoolVar(&o.others, "shapes", false, "measure other shapes instead, into shapes.json")
	flag.StringVar(&o.only, "only", "", "measure only some of: start, speed, fsync, memory, broken; then nothing is written, unless -results says where")
	benchmark.MainOrRender("bench-cascade", func() error { return render(o) }, func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) (err error) {
	all, name := parts, "cascade"
	if o.others {
		all, name = others, "shapes"
	}
	wanted, err := benchmark.Only(all, o.only)
	if err != nil {
		return err
	}
	var f figures
	for _, p := range wanted {
		if err := measure(ctx, o, p, &f); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	o.Results = result.Whole(o.Results, o.only)
	fmt.Fprint(os.Stderr, text(o)(f))
	if err := result.Write(o.Results, name, f); err != nil {
		return err
	}
	return render(o)
}

func measure(ctx context.Context, o options, p benchmark.Part[func(context.Context, *fixture, *figures) error], f *figures) (err error) {
	b, err := newFixture(ctx, o, p.Name == fsync)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	return p.Measure(ctx, b, f)
}

// median returns the median of values, rounded.
func median(values []float64) float64 { return result.Round(result.Median(values)) }
