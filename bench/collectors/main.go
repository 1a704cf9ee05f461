// Command collectors measures ebb-controller's collectors of Pods, Jobs and
// CertificateSigningRequests beside the kube-controller-manager's, on the same real API
// server, one after the other.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ebb-agent/ebb/bench/contender"
	"github.com/ebb-agent/ebb/bench/result"
)

// options are the flags.
type options struct {
	controller, deploy, results string
	rounds, batch, pods, csrs   int
	only                        string
}

// figures go to collectors.json: for each of pods, jobs and csrs, after that name,
//
//	_per_s, _peer_per_s             deletions a second, medians over the rounds
//	_peer_default_per_s             with the limits that its client has by default
//	_requests_per_object, _peer_…   but lists and watches
//	_heap_bytes_per_object          beside what the graph of owners keeps
//	_due_to_sent_p99_ms             at half of _per_s
//
// differences, on how many objects the two disagreed; off_… and observe_…, what a start
// and all that is kept costs; cascade_alone_… and cascade_beside_…, the time from an
// owner's DELETE to its dependent's end, alone and beside Pods that are due all at once.
type figures map[string]float64

// set a figure, rounded.
func (f figures) set(name string, v float64) { f[name] = result.Round(v) }

// parts are what can be measured by itself, in this order.
var parts = []struct {
	name    string
	measure func(context.Context, *bed, figures) error
}{
	{"rate", measureRates}, {"due", measureDue}, {"cascade", measureCascade}, {"heap", measureHeap},
}

// longest is how long the bench waits for anything.
const longest = 10 * time.Minute

func main() {
	var o options
	flag.StringVar(&o.controller, "controller", "bin/ebb-controller", "the ebb-controller binary to measure")
	flag.StringVar(&o.deploy, "deploy", "deploy/manifests", "the directory with the controller's rights")
	flag.StringVar(&o.results, "results", "bench/results", "where collectors.json goes")
	flag.IntVar(&o.rounds, "rounds", 5, "how often each is measured, in turn")
	flag.IntVar(&o.batch, "batch", 2_000, "objects in a round, most of them due at once; of many more Pods the API server refuses the peer most")
	flag.IntVar(&o.pods, "objects", 50_000, "Pods, and as many Jobs, when memory is measured, and Pods beside a cascade")
	flag.IntVar(&o.csrs, "csrs", 20_000, "CertificateSigningRequests, when memory is measured")
	flag.StringVar(&o.only, "only", "", "measure only one of: rate, due, cascade, heap; the others keep the figures that are written")
	again := flag.Bool("render", false, "only write RESULTS.md again, from collectors.json")
	flag.Parse()
	contender.Main("bench-collectors", func(ctx context.Context) error {
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
		return fmt.Errorf("-only %s: want one of rate, due, cascade, heap", o.only)
	}
	b, err := makeBed(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	f := figures{}
	if o.only != "" {
		if err := result.Read(o.results, "collectors", &f); err != nil {
			return fmt.Errorf("-only %s: the others' figures: %w", o.only, err)
		}
	}
	for _, p := range parts {
		if o.only != "" && o.only != p.name {
			continue
		}
		if err := p.measure(ctx, b, f); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	fmt.Fprint(os.Stderr, f.markdown())
	if err := result.Write(o.results, "collectors", f); err != nil {
		return err
	}
	return render(o.results)
}
