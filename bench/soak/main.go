// Command soak runs two ebb-controllers in a cluster in which everything goes wrong. Random
// operations and faults, all generated from one seed, disturb real API servers and a real etcd. An
// oracle that watches etcd judges what the controllers did.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/bench/soak/plan"
)

// options are the flags.
type options struct {
	controller, deploy, results, keep string
	only                              string
	seed                              uint64
	soak, bound, outsideBound         time.Duration
	definitions, objects, rate, gap   int
	requests                          float64
	goOn, plant                       bool
}

func main() {
	var o options
	flag.StringVar(&o.controller, "controller", "bin/ebb-controller", "the ebb-controller binary")
	flag.StringVar(&o.deploy, "deploy", "deploy/manifests", "the directory with the controller's rights")
	flag.StringVar(&o.results, "results", "bench/results", "where soak-cluster.json goes")
	flag.StringVar(&o.keep, "keep", "/var/tmp/ebb-soak", "where logs go when something is wrong")
	flag.Uint64Var(&o.seed, "seed", 0, "what operations and faults are made up from; 0: any")
	flag.DurationVar(&o.soak, "soak", 10*time.Minute, "how long operations and faults go on")
	flag.DurationVar(&o.bound, "bound", 2*time.Minute, "within which all must be done after the last fault")
	flag.DurationVar(&o.outsideBound, "bound-outside", 20*time.Minute, "the same for what has owners in another API server, and for Nodes and volumes, because ebb is slow to delete these; 0: these are left out")
	flag.IntVar(&o.definitions, "definitions", 50, "CustomResourceDefinitions")
	flag.IntVar(&o.objects, "objects", 20000, "objects at the start")
	flag.IntVar(&o.rate, "rate", 20, "operations a second, at most")
	flag.IntVar(&o.gap, "gap", 100, "operations from the beginning of one fault to that of the next of its sort, about")
	flag.Float64Var(&o.requests, "requests", 10, "of the collector for each object that it deletes or changes, at most")
	flag.StringVar(&o.only, "faults", "", "only these, with commas between them: "+strings.Join(slices.Concat(plan.Outages, plan.Conditions), ","))
	flag.BoolVar(&o.goOn, "go-on", false, "count what is wrong, and go on to the end")
	flag.BoolVar(&o.plant, "plant", false, "delete something whose owner lives, to see that the oracle finds it")
	flag.Parse()
	if o.soak < result.WholeSoak || o.only != "" {
		o.results = result.Whole(o.results, "a part")
	}
	for o.seed == 0 {
		o.seed = uint64(rand.Uint32())
	}
	benchmark.Main("soak-cluster", func(ctx context.Context) error {
		if err := run(ctx, o); err != nil {
			return fmt.Errorf("%w\nsoak-cluster: seed %d", err, o.seed)
		}
		return nil
	})
}

// run runs the whole soak. All that it started is gone when it returns.
func run(ctx context.Context, o options) (err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	benchmark.Say("seed %d: starting etcd, two API servers and the namespace controller", o.seed)
	b, err := newFixture(ctx, o, fail)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.keepLogs())
		}
		fail(nil)
		err = errors.Join(err, b.close())
	}()
	f := figures{Seed: o.seed, Objects: o.objects}
	err = b.endure(ctx, &f)
	if cause := context.Cause(ctx); cause != nil {
		err = cause // the first violation, or what else ended it
	}
	if err = errors.Join(err, b.account(&f)); err != nil {
		o.results = "" // what is red is printed, and published nowhere
	}
	if err == nil || f.Wrong+f.Others > 0 {
		err = errors.Join(err, result.Write(o.results, "soak-cluster", f))
	}
	return errors.Join(err, b.verdict(f))
}

// endure makes the cluster and the controllers, runs operations and faults, and waits until nothing
// is outstanding.
func (b *fixture) endure(ctx context.Context, f *figures) error {
	generator := plan.New(b.seed, b.definitions)
	benchmark.Say("making %d definitions and %d objects", b.definitions, b.objects)
	if err := b.populate(ctx, generator); err != nil {
		return err
	}
	if _, err := b.watcher.catchUp(ctx); err != nil {
		return err
	}
	var controllers sync.WaitGroup
	running, end := context.WithCancel(ctx)
	defer func() { end(); controllers.Wait() }()
	offset := time.Duration(2+b.seed%6) * time.Minute
	if b.seed%2 == 0 {
		offset = -offset
	}
	benchmark.Say("starting two controllers, the second one's clock wrong by %v", offset)
	if err := b.startControllers(running, &controllers, offset); err != nil {
		return err
	}
	if err := b.rage(ctx, generator, f); err != nil {
		return err
	}
	return b.settle(ctx, f)
}
