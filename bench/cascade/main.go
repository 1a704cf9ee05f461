// Command cascade measures ebb-controller beside the kube-controller-manager's
// garbage collector, on the same real API server, one after the other, and beside
// what a client that only sends requests can reach.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ebb-agent/ebb/bench/contender"
	"github.com/ebb-agent/ebb/bench/result"
)

// options are the flags.
type options struct {
	controller, deploy, results string
	dependents, rounds          int
	slow, tracked               int
	only                        string
}

// figures go to cascade.json; rates are objects a second, medians over the rounds.
type figures struct {
	Background float64 `json:"background_per_s,omitempty"`
	Foreground float64 `json:"foreground_per_s,omitempty"`
	Orphan     float64 `json:"orphan_per_s,omitempty"`

	LimitDelete float64 `json:"limit_delete_per_s,omitempty"`
	LimitPatch  float64 `json:"limit_patch_per_s,omitempty"`

	PeerBackground float64 `json:"peer_background_per_s,omitempty"`
	PeerForeground float64 `json:"peer_foreground_per_s,omitempty"`
	PeerOrphan     float64 `json:"peer_orphan_per_s,omitempty"`
	PeerDefault    float64 `json:"peer_default_per_s,omitempty"`

	First     float64 `json:"first_ms,omitempty"`
	PeerFirst float64 `json:"peer_first_ms,omitempty"`

	// The most of the three policies; lists and watches do not count.
	Requests     float64 `json:"requests_per_object,omitempty"`
	PeerRequests float64 `json:"peer_requests_per_object,omitempty"`

	// How long an orphaned owner stays after its last dependent was let go.
	Barrier     float64 `json:"orphan_barrier_s,omitempty"`
	PeerBarrier float64 `json:"peer_orphan_barrier_s,omitempty"`

	RSS      float64 `json:"rss_mib_100k,omitempty"`
	PeerRSS  float64 `json:"peer_rss_mib_100k,omitempty"`
	Peak     float64 `json:"peak_rss_mib,omitempty"`
	PeerPeak float64 `json:"peer_peak_rss_mib,omitempty"`
	Heap     float64 `json:"heap_bytes_per_object,omitempty"`

	Ready           float64 `json:"ready_s,omitempty"`
	PeerReady       float64 `json:"peer_ready_s,omitempty"`
	ReadyBroken     float64 `json:"ready_broken_s,omitempty"`
	PeerReadyBroken float64 `json:"peer_ready_broken_s,omitempty"`
}

// parts are what can be measured by itself, in this order: what leaves most behind
// comes last.
var parts = []struct {
	name    string
	measure func(context.Context, *bed, *figures) error
}{
	{"start", measureStarts}, {"speed", measureSpeed}, {"memory", measureMemory}, {"broken", measureBroken},
}

func main() {
	var o options
	flag.StringVar(&o.controller, "controller", "bin/ebb-controller", "the ebb-controller binary to measure")
	flag.StringVar(&o.deploy, "deploy", "deploy/manifests", "the directory with the controller's rights")
	flag.StringVar(&o.results, "results", "bench/results", "where cascade.json goes")
	flag.IntVar(&o.dependents, "dependents", 5000, "dependents of one owner")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each is measured, in turn")
	flag.IntVar(&o.slow, "slow", 600, "dependents for the peer with its default limits")
	flag.IntVar(&o.tracked, "tracked", 100000, "objects that are tracked when memory is measured")
	flag.StringVar(&o.only, "only", "", "measure only one of: start, speed, memory, broken; then nothing is written")
	again := flag.Bool("render", false, "only write RESULTS.md again, from cascade.json")
	flag.Parse()
	contender.Main("bench-cascade", func(ctx context.Context) error {
		if *again {
			return render(o.results)
		}
		return run(ctx, o)
	})
}

func run(ctx context.Context, o options) (err error) {
	if o.controller, err = filepath.Abs(o.controller); err != nil {
		return err
	}
	known := o.only == ""
	for _, p := range parts {
		known = known || p.name == o.only
	}
	if !known {
		return fmt.Errorf("-only %s: want one of start, speed, memory, broken", o.only)
	}
	b, err := makeBed(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	var f figures
	for _, p := range parts {
		if o.only != "" && o.only != p.name {
			continue
		}
		if err := p.measure(ctx, b, &f); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	fmt.Fprint(os.Stderr, f.markdown())
	if o.only != "" {
		return nil // the others' figures would be missing
	}
	if err := result.Write(o.results, "cascade", f); err != nil {
		return err
	}
	return render(o.results)
}

// median of some values, rounded; 0 for none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return result.Round(result.Percentile(values, 50))
}
