// Command soaknode runs an ebb-agent on a throwaway node with random containers, pulls, writers and
// faults, all generated from one seed. An oracle judges what the agent did.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/node"
)

type options struct {
	agent, results, keep, fs, flavor string
	seed                             uint64
	soak, late                       time.Duration
	gap, containers                  int
	goOn, withKubelet                bool
}

// figures are what soak.json has.
type figures struct {
	Seed             uint64         `json:"seed"`
	FS               string         `json:"fs"`
	Changed          map[string]any `json:"changed_configuration"`
	Seconds          float64        `json:"seconds"`
	Steps            int            `json:"steps"`
	StepsByKind      map[string]int `json:"steps_by_kind"`
	Faults           int            `json:"faults"`
	FaultsByKind     map[string]int `json:"faults_by_kind"`
	Removals         int            `json:"removals"`
	WrongRemovals    int            `json:"wrong_removals"`
	OtherViolations  int            `json:"other_violations"`
	LateSecondsMax   float64        `json:"late_seconds_max"`
	BeyondNeed       int            `json:"beyond_need"`
	LastUseErrorSMax float64        `json:"last_use_error_s_max"`
	PodsGone         int            `json:"pods_gone"`
	PodLeftSMax      float64        `json:"pod_left_s_max"`
	LinesMinuteMax   int            `json:"log_lines_minute_max"`
	RSSMiBMax        float64        `json:"rss_mib_max"`
	DescriptorsMax   int            `json:"descriptors_max"`
	ThreadsMax       int            `json:"threads_max"`
	GoroutinesMax    int            `json:"goroutines_max"`
	LoopBlockedMsMax float64        `json:"loop_blocked_ms_max"`
	LeasesMax        int            `json:"leases_max"`
	SnapshotsMax     int            `json:"snapshots_max"`
	ReadyPercent     float64        `json:"ready_percent"`
}

func main() {
	var o options
	flag.StringVar(&o.agent, "agent", "bin/ebb-agent", "the ebb-agent binary")
	flag.StringVar(&o.results, "results", "bench/results", "where soak.json goes")
	flag.StringVar(&o.keep, "keep", "/var/tmp/ebb-soak", "where the agent's log goes when something is wrong")
	flag.StringVar(&o.fs, "fs", "ext4,xfs,btrfs", "filesystems, one after the other")
	flag.StringVar(&o.flavor, "containerd", string(node.V2), "debian or v2")
	flag.Uint64Var(&o.seed, "seed", 0, "what steps and faults are made up from; 0: any")
	flag.DurationVar(&o.soak, "soak", 10*time.Minute, "how long steps and faults go on, on all filesystems together")
	flag.IntVar(&o.gap, "gap", 25, "steps from one fault to the next, about")
	flag.IntVar(&o.containers, "containers", 60, "that stay, at most")
	flag.DurationVar(&o.late, "late", 2*time.Second, "how long the disk may be over its high threshold while something could go; more where the machine is busy")
	flag.BoolVar(&o.goOn, "go-on", false, "count what is wrong, and go on to the end")
	flag.BoolVar(&o.withKubelet, "kubelet", false, "a real kubelet starts and ends the pods; the result is soak-kubelet.json")
	flag.Parse()
	for o.seed == 0 {
		o.seed = uint64(rand.Uint32())
	}
	benchmark.Main("soak", func(ctx context.Context) error {
		if err := run(ctx, o); err != nil {
			return fmt.Errorf("%w\nsoak: seed %d", err, o.seed)
		}
		return nil
	})
}

// run soaks each filesystem for its share of the time.
func run(ctx context.Context, o options) error {
	var err error
	if o.agent, err = filepath.Abs(o.agent); err != nil {
		return err
	}
	kinds := strings.Split(o.fs, ",")
	if o.soak /= time.Duration(len(kinds)); o.soak < result.WholeSoak || len(kinds) < 3 {
		o.results = result.Whole(o.results, "a part")
	}
	name := "soak"
	if o.withKubelet {
		name = "soak-kubelet"
	}
	var all []figures
	for _, fs := range kinds {
		f, err := soak(ctx, o, fs)
		if f.Steps > 0 {
			all = append(all, f)
		}
		if err != nil { // what is red is printed, and published nowhere
			return errors.Join(fmt.Errorf("%s: %w", fs, err), result.Write("", name, map[string]any{"soaks": all}))
		}
	}
	return result.Write(o.results, name, map[string]any{"soaks": all})
}

// soak makes a node and soaks it for its share of the time.
func soak(ctx context.Context, o options, fs string) (f figures, err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	benchmark.Say("seed %d on %s: making the node", o.seed, fs)
	b, err := newFixture(ctx, o, fs)
	if err != nil {
		return f, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.keepLog())
		}
		err = errors.Join(err, b.close())
	}()
	begun := time.Now()
	d := newDriver(b)
	watched := make(chan struct{})
	watching, end := context.WithCancel(ctx)
	go func() { defer close(watched); b.watch(watching, fail) }()
	err = d.run(ctx, begun.Add(o.soak))
	end()
	<-watched
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err == nil {
		err = d.whole(ctx)
	}
	f = b.figures()
	f.Seed, f.FS, f.Changed, f.Seconds = o.seed, fs, b.changed, result.Round(time.Since(begun).Seconds())
	f.StepsByKind, f.FaultsByKind = d.steps, d.faults
	f.Steps, f.Faults = total(d.steps), total(d.faults)
	if all := b.oracle.Violations(); err == nil && len(all) > 0 {
		err = fmt.Errorf("%d violations, the first: %s", len(all), all[0])
	}
	if err == nil && f.LeasesMax == 0 && f.Steps >= enoughSteps {
		err = errors.New("no lease of the agent was ever seen: it may label them otherwise than " + agentLabel)
	}
	return f, err
}

// whole ends all that was started, runs each image that is left, and checks that nothing on the node
// is incomplete. If containerd was killed while it had a view, the agent's next start removes what is
// left of the view.
func (d *driver) whole(ctx context.Context) error {
	for len(d.stays) > 0 {
		if err := d.endOne(ctx, 0); err != nil && !d.expected(err) {
			return err
		}
	}
	d.deleteFailed(ctx)
	if err := errors.Join(d.awaitPodsGone(ctx), d.checkAllRun(ctx)); err != nil {
		return err
	}
	d.oracle.OutageBegins(time.Now()) // from here on only what is left on the node is judged
	if _, err := d.restartAgent(ctx); err != nil {
		return err
	}
	p := d.running()
	d.setAgent(nil)
	if err := p.Stop(); err != nil {
		return err
	}
	maps.DeleteFunc(d.cut, func(_ string, cut bool) bool { return !cut })
	return d.node.Whole(ctx, slices.Collect(maps.Keys(d.cut))...)
}

func total(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}
