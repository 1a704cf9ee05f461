// Command images measures the agent on a node with thousands of images: how soon it is ready, what
// it costs when nothing happens, and how fast it removes many images.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/population"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/node"
)

// options are the flags.
type options struct {
	agent, results, only string
	idle, rest           time.Duration
	images               int
	labels               bool
}

// size is a node of one size.
type size struct {
	name string // suffix of each figure's name
	population.Population
	disk int64 // bytes
}

var sizes = []size{
	{"", population.Population{Images: 5_000, Layers: 2}, 4 * gib},
	{"_10k", population.Population{Images: 10_000, Layers: 5}, 8 * gib},
}

const gib = 1 << 30

// figures are written to images.json, for each size:
//
//	first_ready_s       the first start, with nothing saved
//	ready_s             a start after that
//	known_s             from the first start until the kernel distinguishes every layer
//	idle_cpu_percent    of one core, over -idle, after that
//	rss_mib, peak_rss_mib
//	runtime_alone_ms    containerd's own removal of one image, as the kubelet asks for it, while
//	                    the agent is stopped: the median of five
//	first_ms            from the crossing to the first removal done, the median of five, in
//	                    turn with containerd's own
//	removed_per_s       while many have to be removed
//	removed             how many were removed
type figures map[string]float64

func main() {
	var o options
	flag.StringVar(&o.agent, "agent", "bin/ebb-agent", "the ebb-agent binary to measure")
	flag.StringVar(&o.results, "results", result.Dir, "where images.json goes")
	flag.StringVar(&o.only, "only", "", "5k or 10k: one size, and nothing is written, unless -results says where")
	flag.IntVar(&o.images, "images", 0, "this many images of two layers instead of both sizes; written only where -results says")
	flag.DurationVar(&o.rest, "rest", 20*time.Second, "what the agent is given to come to rest before it is watched")
	flag.BoolVar(&o.labels, "upperdir-label", false, "set containerd's option by which layers need no View, and write nothing")
	flag.DurationVar(&o.idle, "idle", time.Minute, "how long to watch the agent with nothing to do")
	flag.Parse()
	benchmark.Main("bench-images", func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) (err error) {
	f := figures{}
	sizes := sizes
	if o.images > 0 {
		sizes, o.only = []size{{"", population.Population{Images: o.images, Layers: 2}, max(gib/4, int64(o.images)*gib/1250)}}, fmt.Sprintf("%dk", o.images/1000)
	}
	for _, s := range sizes {
		if o.only != "" && o.only != fmt.Sprintf("%dk", s.Images/1000) {
			continue
		}
		if err := s.measure(ctx, o, f); err != nil {
			return fmt.Errorf("%d images: %w", s.Images, err)
		}
	}
	if o.labels {
		return nil
	}
	return result.Write(result.Whole(o.results, o.only), "images", f)
}

// set stores a figure of this size, rounded.
func (s size) set(f figures, name string, v float64) {
	f[name+s.name] = result.Round(v)
	benchmark.Say("%s%s %.3f", name, s.name, v)
}

func (s size) measure(ctx context.Context, o options, f figures) (err error) {
	n, err := node.Start(ctx, node.Config{Name: "images", SizeBytes: s.disk, Containerd: node.V2, UpperdirLabel: o.labels})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := s.Import(ctx, n); err != nil {
		return err
	}
	return s.watchAgent(ctx, o, n, f)
}

// removeAlone has containerd remove an image as the kubelet does, and returns what that
// took, in ms.
func (s size) removeAlone(ctx context.Context, n *node.Node, serial int) (took float64, err error) {
	id, err := n.Import(ctx, node.CRINamespace, s.Image(s.Images+serial))
	if err != nil {
		return 0, err
	}
	_, images := n.CRI()
	began := time.Now()
	_, err = images.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: id}})
	return time.Since(began).Seconds() * 1e3, err
}
