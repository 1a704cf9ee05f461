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
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/contender"
	"github.com/ebb-agent/ebb/bench/result"
)

// options are the flags.
type options struct {
	*contender.Options
	rounds, batch, pods, csrs int
	families, firstDay        int
	lasts, ahead, rest, later time.Duration
	only                      string
}

// figures are written to collectors.json. For each of pods, jobs and csrs, with that name in front:
//
//	_per_s, _peer_per_s             deletions a second, medians over the rounds
//	_shipped_per_s                  ebb with its envelope and circuit breaker
//	_peer_default_per_s             with the limits that its client has by default
//	_requests_per_object, _peer_…   without lists and watches
//	_heap_bytes_per_object          in addition to the graph of owners
//	_due_to_sent_p99_ms             at half of _per_s
//
// differences is on how many objects the two disagreed. off_… and observe_… are the cost of a start
// and of all that is kept. cascade_alone_… and cascade_beside_… are the times from an owner's
// DELETE to its dependent's end: alone, and beside Pods that are all due at once. cascade_first_day_… and
// cascade_first_day_later_… are the same as shipped, beside Jobs that are all due at once, and after a while.
type figures map[string]float64

// set stores a figure, rounded.
func (f figures) set(name string, v float64) { f[name] = result.Round(v) }

// parts can each be measured separately. They run in this order.
var parts = []benchmark.Part[func(context.Context, *fixture, figures) error]{
	{Name: "rate", Measure: measureRates}, {Name: "due", Measure: measureDue}, {Name: "cascade", Measure: measureCascade}, {Name: "heap", Measure: measureHeap},
	{Name: "firstday", Measure: measureFirstDay}, // the last: it leaves most of its Jobs behind
}

// longest is how long the bench waits for anything.
const longest = 10 * time.Minute

func main() {
	var o options
	o.Options = contender.Flags("collectors")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each is measured, in turn")
	flag.IntVar(&o.batch, "batch", 2_000, "objects in a round, most of them due at once; of many more Pods the API server refuses the peer most")
	flag.IntVar(&o.pods, "objects", 50_000, "Pods, and as many Jobs, when memory is measured, and Pods beside a cascade")
	flag.IntVar(&o.csrs, "csrs", 20_000, "CertificateSigningRequests, when memory is measured")
	flag.IntVar(&o.families, "families", 300, "owners, each with a dependent, that are deleted one after the other")
	flag.IntVar(&o.firstDay, "first-day", 50_000, "Jobs, each with two Pods, that are due when the collector of Jobs starts as shipped")
	flag.DurationVar(&o.later, "later", 8*time.Minute, "until that collector has used its half of the circuit breaker's window")
	flag.DurationVar(&o.lasts, "lasts", 25*time.Second, "how long objects fall due")
	flag.DurationVar(&o.ahead, "ahead", 45*time.Second, "what is given to load them, and to ebb to start, before the first is due")
	flag.DurationVar(&o.rest, "rest", 5*time.Second, "what a process is given to come to rest before its memory counts")
	flag.StringVar(&o.only, "only", "", "measure only some of: rate, due, cascade, heap, firstday; then nothing is written, unless -results says where")
	benchmark.MainOrRender("bench-collectors", func() error { return render(o.Results) }, func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) (err error) {
	wanted, err := benchmark.Only(parts, o.only)
	if err != nil {
		return err
	}
	b, err := newFixture(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	f := figures{}
	for _, p := range wanted {
		if err := p.Measure(ctx, b, f); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	fmt.Fprint(os.Stderr, f.markdown())
	o.Results = result.Whole(o.Results, o.only)
	if err := result.Write(o.Results, "collectors", f); err != nil {
		return err
	}
	return render(o.Results)
}
