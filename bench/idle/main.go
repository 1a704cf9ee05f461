// Command idle measures the CPU time, wake-ups and memory of the agent and the kubelet when nothing
// happens. Both are measured in the same time on the same throwaway node, which has many images and
// pods. For comparison, a kubelet on a second node of the same kind runs its own image garbage
// collection, which the agent takes over on the first node.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/process"
)

// options are the flags.
type options struct {
	agent, results string
	images, pods   int
	period, rest   time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.agent, "agent", "bin/ebb-agent", "the ebb-agent binary to measure")
	flag.IntVar(&o.images, "images", 200, "how many images")
	flag.IntVar(&o.pods, "containers", 100, "how many pods, of one running container each")
	flag.DurationVar(&o.period, "period", 10*time.Minute, "how long to watch; the kubelet looks at its images every 5 minutes, and ebb every 4.5 to 5.5")
	flag.DurationVar(&o.rest, "rest", 20*time.Second, "what everything is given to come to rest before that")
	flag.StringVar(&o.results, "results", result.Dir, "where idle.json goes")
	benchmark.MainOrRender("bench-idle", func() error { return render(o.results) }, func(ctx context.Context) error { return run(ctx, o) })
}

// figures are written to idle.json.
type figures struct {
	// Measured in the same time on the same node. The kubelet's image garbage collection is handed
	// over to ebb.
	Ebb     cost `json:"ebb"`
	Kubelet cost `json:"kubelet"`
	// KubeletImages is the kubelet with its image garbage collection, measured in the same time on
	// another node of the same kind, without ebb.
	KubeletImages cost `json:"kubelet_images"`

	OwnWakeups float64 `json:"own_wakeups_per_min"` // of ebb
	Images     int     `json:"images"`
	Containers int     `json:"containers"`
	Period     float64 `json:"period_s"`

	ScrapeTook   float64 `json:"scrape_ms"`
	ScrapeCPU    float64 `json:"scrape_cpu_ms"`
	ScrapeSeries int     `json:"scrape_series"`
	ScrapeBytes  int     `json:"scrape_bytes"`
}

// cost is the resource use of a process.
type cost struct {
	CPU      float64 `json:"cpu_percent"`              // of one core
	Switches float64 `json:"context_switches_per_min"` // voluntary ones of all threads
	RSS      float64 `json:"rss_mib"`
	PeakRSS  float64 `json:"peak_rss_mib"`
}

func run(ctx context.Context, o options) (err error) {
	// A threshold of 100 hands the kubelet's image garbage collection over.
	beside, err := start(ctx, o, "idle", map[string]any{"imageGCHighThresholdPercent": 100})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, beside.close()) }()
	alone, err := start(ctx, o, "idle-alone", nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, alone.close()) }()
	f := figures{Images: o.images, Containers: o.pods, Period: o.period.Seconds()}
	if err := watchAll(ctx, o, beside, alone, &f); err != nil {
		return err
	}
	fmt.Fprint(os.Stderr, f.markdown())
	if err := result.Write(o.results, "idle", f); err != nil {
		return err
	}
	return render(o.results)
}

// kubeletNode is a node with its kubelet, which runs all the pods.
type kubeletNode struct {
	node         *node.Node
	installation *agentrun.Installation
	kubelet      *peers.Kubelet
}

func start(ctx context.Context, o options, name string, configuration map[string]any) (_ *kubeletNode, err error) {
	k := &kubeletNode{}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.close())
		}
	}()
	if k.node, err = node.Start(ctx, node.Config{Name: name, FS: "ext4", SizeBytes: 4 << 30, Containerd: node.V2}); err != nil {
		return nil, err
	}
	if k.installation, err = agentrun.Install(ctx, k.node); err != nil {
		return nil, err
	}
	if k.kubelet, err = k.installation.StartKubelet(ctx, peers.KubeletConfig{Node: k.node, Configuration: configuration}); err != nil {
		return nil, err
	}
	return k, populate(ctx, o, k.node, k.kubelet)
}

func (k *kubeletNode) close() (err error) {
	if k.kubelet != nil {
		err = k.kubelet.Close()
	}
	if k.installation != nil {
		err = errors.Join(err, k.installation.Close())
	}
	if k.node != nil {
		err = errors.Join(err, k.node.Close())
	}
	return err
}

// populate imports the images and has the kubelet run pods of them.
func populate(ctx context.Context, o options, n *node.Node, k *peers.Kubelet) error {
	benchmark.Say("importing %d images, starting %d pods", o.images, o.pods)
	list := make([]node.Image, o.images)
	for i := range list {
		list[i] = node.Image{Name: fmt.Sprintf("idle.test/image:%d", i), Layers: []node.Layer{
			{Seed: fmt.Sprintf("group-%d", i/10), Bytes: 64 << 10, Files: 4},
			{Seed: fmt.Sprintf("own-%d", i), Bytes: 64 << 10, Files: 4},
		}}
	}
	if _, err := n.ImportAll(ctx, node.CRINamespace, list); err != nil {
		return err
	}
	for i := range o.pods {
		if err := k.CreatePod(ctx, peers.PodSpec{Name: fmt.Sprint("idle-", i), Image: list[i%o.images].Name}); err != nil {
			return err
		}
	}
	return benchmark.Until(ctx, time.Second, 10*time.Minute, "the pods do not all run", func(ctx context.Context) (bool, error) {
		pods, err := k.Pods(ctx)
		running := 0
		for _, p := range pods {
			if peers.IsRunning(p, false) {
				running++
			}
		}
		return running == o.pods, err
	})
}

// watchAll runs the agent, as it is shipped, beside one kubelet but not beside the other, and
// measures all three at the same time. Then it measures scrapes.
func watchAll(ctx context.Context, o options, beside, alone *kubeletNode, f *figures) (err error) {
	p, err := agentrun.Start(ctx, agentrun.Options{Binary: o.agent, Dir: beside.node.Dir(), Config: beside.installation.Config})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	if err := benchmark.Until(ctx, 100*time.Millisecond, 2*time.Minute, "the agent does not settle", func(ctx context.Context) (bool, error) {
		tracked, err := p.Metric(ctx, "ebb_node_layers_tracked")
		return int(tracked) >= o.images, err
	}); err != nil {
		return err
	}
	const own = "ebb_node_timer_wakeups_total"
	before, err := p.Metric(ctx, own)
	if err != nil {
		return err
	}
	var g errgroup.Group
	g.Go(func() (err error) { f.Kubelet, err = watch(ctx, o, beside.kubelet.PID()); return err })
	g.Go(func() (err error) { f.KubeletImages, err = watch(ctx, o, alone.kubelet.PID()); return err })
	f.Ebb, err = watch(ctx, o, p.PID())
	if err := errors.Join(err, g.Wait()); err != nil {
		return err
	}
	after, err := p.Metric(ctx, own)
	if err != nil {
		return err
	}
	f.OwnWakeups = result.Round((after - before) / (o.rest + o.period).Minutes())
	s, err := measureScrapes(ctx, p)
	f.ScrapeTook, f.ScrapeCPU = result.Round(s.took.Seconds()*1e3), result.Round(s.cpu.Seconds()*1e3)
	f.ScrapeSeries, f.ScrapeBytes = s.series, s.bytes
	return err
}

// watch measures a process that has nothing to do, after it has come to rest. No request is sent to
// the process during that time.
func watch(ctx context.Context, o options, pid int) (c cost, err error) {
	if err := benchmark.Pause(ctx, o.rest); err != nil {
		return c, err
	}
	benchmark.Say("watching process %d for %v", pid, o.period)
	before, err := process.UsageOf(pid)
	if err != nil {
		return c, err
	}
	if err := benchmark.Pause(ctx, o.period); err != nil {
		return c, err
	}
	after, err := process.UsageOf(pid)
	rate := after.Since(before)
	return cost{
		CPU: result.Round(rate.CPUPercent), Switches: result.Round(60 * rate.Voluntary),
		RSS: result.Round(after.RSSMiB()), PeakRSS: result.Round(after.PeakMiB()),
	}, err
}
