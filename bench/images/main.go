// Command images measures the agent on a node with thousands of images: how soon it is
// ready, what it costs when nothing happens, and how fast images go when many have to.
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

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/node"
)

// options are the flags.
type options struct {
	agent, results, only string
	idle                 time.Duration
}

// size is one node: so many images of so many layers. Ten images in a row share all
// layers but their last two, or their last one where they have two.
type size struct {
	name           string // of the figures, behind each
	images, layers int
	disk           int64 // bytes
}

var sizes = []size{{"", 5_000, 2, 4 << 30}, {"_10k", 10_000, 5, 8 << 30}}

// figures go to images.json, for each size:
//
//	first_ready_s       the first start, with nothing saved
//	ready_s             a start after that
//	known_s             from the first start until every layer is told apart in the kernel
//	idle_cpu_percent    of one core, over -idle, once they are
//	rss_mib, peak_rss_mib
//	runtime_alone_ms    containerd's own synchronous removal of one image, the median
//	first_ms            from the crossing to the first removal done
//	removed_per_s       where many have to go
//	removed             how many went
type figures map[string]float64

func main() {
	var o options
	flag.StringVar(&o.agent, "agent", "bin/ebb-agent", "the ebb-agent binary to measure")
	flag.StringVar(&o.results, "results", "bench/results", "where images.json goes")
	flag.StringVar(&o.only, "only", "", "5k or 10k: one size, and nothing is written")
	flag.DurationVar(&o.idle, "idle", time.Minute, "how long to watch the agent with nothing to do")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench-images:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.agent, err = filepath.Abs(o.agent); err != nil {
		return err
	}
	f := figures{}
	for _, s := range sizes {
		if o.only != "" && o.only != fmt.Sprintf("%dk", s.images/1000) {
			continue
		}
		if err := s.measure(ctx, o, f); err != nil {
			return fmt.Errorf("%d images: %w", s.images, err)
		}
	}
	if o.only != "" {
		return nil
	}
	return result.Write(o.results, "images", f)
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

// set a figure of this size, rounded.
func (s size) set(f figures, name string, v float64) {
	f[name+s.name] = result.Round(v)
	say("%s%s %.3f", name, s.name, v)
}

func (s size) measure(ctx context.Context, o options, f figures) (err error) {
	n, err := node.Start(ctx, node.Config{Name: "images", SizeBytes: s.disk, Containerd: node.V2})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := s.populate(ctx, n); err != nil {
		return err
	}
	if err := s.removeAlone(ctx, n, f); err != nil {
		return err
	}
	return s.watchAgent(ctx, o, n, f)
}

// populate imports the images, some hundred at a time.
func (s size) populate(ctx context.Context, n *node.Node) error {
	const at = 250
	for i := 0; i < s.images; i += at {
		list := make([]node.Image, 0, at)
		for j := i; j < min(i+at, s.images); j++ {
			list = append(list, s.image(j))
		}
		if _, err := n.ImportAll(ctx, node.CRINamespace, list); err != nil {
			return err
		}
		if (i+at)%1000 == 0 {
			say("%d of %d images imported", i+at, s.images)
		}
	}
	return nil
}

func (s size) image(i int) node.Image {
	image := node.Image{Name: fmt.Sprintf("images.test/image:%d", i), NoBusybox: true}
	own := min(2, s.layers-1)
	for l := range s.layers {
		seed := fmt.Sprintf("group-%d-%d", i/10, l)
		if l >= s.layers-own {
			seed = fmt.Sprintf("own-%d-%d", i, l)
		}
		image.Layers = append(image.Layers, node.Layer{Seed: seed, Bytes: 32 << 10, Files: 2})
	}
	return image
}

// removeAlone removes images as containerd's own tools do, without an agent.
func (s size) removeAlone(ctx context.Context, n *node.Node, f figures) error {
	ctx = namespaces.WithNamespace(ctx, node.CRINamespace)
	store := n.Client().ImageService()
	var took []float64
	for i := range 7 {
		image := s.image(s.images + i)
		id, err := n.Import(ctx, node.CRINamespace, image)
		if err != nil {
			return err
		}
		began := time.Now()
		for _, name := range []string{id, image.Name} { // CRI's name of it, and the one it was imported by
			if err := store.Delete(ctx, name, images.SynchronousDelete()); err != nil {
				return err
			}
		}
		took = append(took, time.Since(began).Seconds()*1e3/2)
	}
	s.set(f, "runtime_alone_ms", result.Percentile(took, 50))
	return nil
}
