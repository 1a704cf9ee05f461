// Command size measures ebb-controller with a million objects, on a real API server and etcd. It
// also measures the kube-controller-manager's garbage collector: with fewer objects, and with as
// many if the machine has the memory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/prometheus/procfs"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/contender"
	"github.com/ebb-agent/ebb/bench/result"
)

// options are the flags.
type options struct {
	*contender.Options
	objects, few int
	rest         time.Duration
	peer         int
}

// figures are written to size.json.
type figures struct {
	Few  stage `json:"few"`
	Many stage `json:"many"`
}

// stage is a cluster of some size.
type stage struct {
	Objects    int       `json:"objects"`
	Dependents int       `json:"cascade_dependents"`
	Ebb        measured  `json:"ebb"`
	Peer       *measured `json:"peer,omitempty"`
}

// measured has the figures of one contender.
type measured struct {
	Ready     float64 `json:"ready_s"`            // from exec to all types listed, and the first deletion
	ReadyCPU  float64 `json:"ready_cpu_s"`        // of the contender alone
	ReadyRead float64 `json:"ready_read_mib"`     // from the API server
	Start     float64 `json:"start_peak_rss_mib"` // until then, and while coming to rest
	Rest      float64 `json:"rss_mib"`
	Heap      float64 `json:"heap_bytes_per_object,omitempty"`
	PerSecond float64 `json:"cascade_per_s"`
	Cascade   float64 `json:"cascade_peak_rss_mib"`
	Read      float64 `json:"cascade_read_mib"`
}

// longest is how long the bench waits for anything.
const longest = 20 * time.Minute

func main() {
	var o options
	o.Options = contender.Flags("size")
	flag.IntVar(&o.objects, "objects", 1_000_000, "objects in the cluster; with fewer nothing is written, unless -results says where")
	flag.IntVar(&o.few, "few", 100_000, "objects that it has at first; 0: none")
	flag.DurationVar(&o.rest, "rest", 10*time.Second, "what a process is given to come to rest before its memory counts")
	flag.IntVar(&o.peer, "peer", math.MaxInt, "objects that the kube-controller-manager is measured with at most")
	benchmark.MainOrRender("bench-size", func() error { return render(o.Results) }, func(ctx context.Context) error { return run(ctx, o) })
}

// dependents returns how many dependents the deleted owner has: 50,000 of a million objects.
func dependents(objects int) int { return objects / 20 }

func run(ctx context.Context, o options) (err error) {
	o.few = min(o.few, o.objects/10)
	ctx, end := guardMemory(ctx)
	defer end()
	b, err := newFixture(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	var f figures
	if o.few > 0 {
		if f.Few, err = b.stage(ctx, o.few, nil); err != nil {
			return err
		}
	}
	if f.Many, err = b.stage(ctx, o.objects, f.Few.Peer); err != nil {
		return err
	}
	fmt.Fprint(os.Stderr, f.markdown())
	if full := 1_000_000; (o.objects < full || o.few == 0 || o.peer < o.few) && o.Results == result.Dir {
		return nil // some figures would be missing, or for other sizes
	}
	if err := result.Write(o.Results, "size", f); err != nil {
		return err
	}
	return render(o.Results)
}

// spare is how many MiB are left to other processes on the machine.
const spare = 2048

// guardMemory cancels a run that would take memory which other processes need.
func guardMemory(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for benchmark.Pause(ctx, time.Second) == nil {
			if free, err := available(); err != nil || free < spare {
				cancel(fmt.Errorf("%.0f MiB of memory are left on the machine (%w)", free, errors.Join(errMemory, err)))
			}
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

var errMemory = errors.New("not enough memory")

// available returns the machine's available memory in MiB.
func available() (float64, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	memory, err := fs.Meminfo()
	if err != nil || memory.MemAvailable == nil {
		return 0, fmt.Errorf("read /proc/meminfo: no MemAvailable (%w)", err)
	}
	return float64(*memory.MemAvailable) / 1024, nil
}
