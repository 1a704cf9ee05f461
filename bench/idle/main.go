// Command idle measures what the agent costs when nothing happens: CPU time,
// wake-ups and memory on a throwaway node with many images and containers.
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

	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
)

func main() {
	agent := flag.String("agent", "bin/ebb-agent", "the ebb-agent binary to measure")
	images := flag.Int("images", 200, "how many images")
	containers := flag.Int("containers", 100, "how many running containers")
	period := flag.Duration("period", time.Minute, "how long to watch")
	results := flag.String("results", "bench/results", "where idle.json goes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *agent, *results, *images, *containers, *period); err != nil {
		fmt.Fprintln(os.Stderr, "bench-idle:", err)
		os.Exit(1)
	}
}

type figures struct {
	CPU        float64 `json:"cpu_percent"`
	OwnWakeups float64 `json:"own_wakeups_per_min"`
	Switches   float64 `json:"context_switches_per_min"`
	RSS        float64 `json:"rss_mib"`
	PeakRSS    float64 `json:"peak_rss_mib"`
	Images     int     `json:"images"`
	Containers int     `json:"containers"`
	Period     float64 `json:"period_s"`

	ScrapeTook   float64 `json:"scrape_ms"`
	ScrapeCPU    float64 `json:"scrape_cpu_ms"`
	ScrapeSeries int     `json:"scrape_series"`
	ScrapeBytes  int     `json:"scrape_bytes"`
}

func run(ctx context.Context, binary, results string, images, containers int, period time.Duration) (err error) {
	if binary, err = filepath.Abs(binary); err != nil {
		return err
	}
	n, err := node.Start(ctx, node.Config{Name: "idle", FS: "ext4", SizeBytes: 4 << 30})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := populate(ctx, n, images, containers); err != nil {
		return err
	}
	c := agentrun.ConfigFor(n)
	p, err := agentrun.Start(ctx, agentrun.Options{Binary: binary, Dir: n.Dir(), Config: c})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop(), agentrun.Unload(c)) }()
	if err := awaitResolved(ctx, p, images); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "the agent has settled; watching it for %s\n", period)
	f, err := watch(ctx, p, period)
	if err != nil {
		return err
	}
	f.Images, f.Containers = images, containers
	s, err := measureScrapes(ctx, p)
	if err != nil {
		return err
	}
	f.ScrapeTook, f.ScrapeCPU = result.Round(s.took.Seconds()*1e3), result.Round(s.cpu.Seconds()*1e3)
	f.ScrapeSeries, f.ScrapeBytes = s.series, s.bytes
	return result.Write(results, "idle", f)
}

// populate imports the images and starts the containers.
func populate(ctx context.Context, n *node.Node, images, containers int) error {
	fmt.Fprintf(os.Stderr, "importing %d images, starting %d containers\n", images, containers)
	list := make([]node.Image, images)
	for i := range list {
		list[i] = node.Image{Name: fmt.Sprintf("idle.test/image:%d", i), Layers: []node.Layer{
			{Seed: fmt.Sprintf("group-%d", i/10), Bytes: 64 << 10, Files: 4},
			{Seed: fmt.Sprintf("own-%d", i), Bytes: 64 << 10, Files: 4},
		}}
	}
	if _, err := n.ImportAll(ctx, node.CRINamespace, list); err != nil {
		return err
	}
	for i := range containers {
		if _, err := n.Run(ctx, node.RunSpec{ID: fmt.Sprintf("c%d", i), Image: list[i%images].Name}); err != nil {
			return err
		}
	}
	return nil
}

// awaitResolved waits until the kernel tracks every image's layer, and the
// agent has gone quiet.
func awaitResolved(ctx context.Context, p *agentrun.Process, images int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("the agent does not settle"))
	defer cancel()
	for {
		tracked, err := p.Metric(ctx, "ebb_node_layers_tracked")
		if err != nil {
			return err
		}
		if int(tracked) >= images {
			break
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return pause(ctx, 10*time.Second) // garbage collection and the events of our own making
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

func watch(ctx context.Context, p *agentrun.Process, period time.Duration) (f figures, err error) {
	const own = "ebb_node_own_wakeups_total"
	wakeups, err := p.Metric(ctx, own)
	if err != nil {
		return f, err
	}
	// The scrape itself has to be over before the clock starts.
	if err := pause(ctx, 2*time.Second); err != nil {
		return f, err
	}
	before, err := p.Usage()
	if err != nil {
		return f, err
	}
	if err := pause(ctx, period); err != nil {
		return f, err
	}
	after, err := p.Usage()
	if err != nil {
		return f, err
	}
	wakeupsAfter, err := p.Metric(ctx, own)
	if err != nil {
		return f, err
	}
	took := after.At.Sub(before.At)
	f.CPU = result.Round(after.CPUPercent(before))
	f.OwnWakeups = result.Round((wakeupsAfter - wakeups) / took.Minutes())
	f.Switches = result.Round(float64(after.Switches-before.Switches) / took.Minutes())
	f.RSS, f.PeakRSS = result.Round(after.RSSMiB), result.Round(after.PeakRSSMiB)
	f.Period = result.Round(took.Seconds())
	return f, nil
}
