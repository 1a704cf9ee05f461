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
	"strings"
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

// reading is the process as the kernel accounts for it.
type reading struct {
	at       time.Time
	cpu      time.Duration
	switches int
}

func read(pid int) (r reading, err error) {
	r.at = time.Now()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		return r, err
	}
	for _, task := range tasks {
		stat, err := os.ReadFile(filepath.Join(task, "schedstat"))
		if err != nil {
			return r, err
		}
		var ns, waited, slices int64
		if _, err := fmt.Sscan(string(stat), &ns, &waited, &slices); err != nil {
			return r, fmt.Errorf("%s/schedstat: %w", task, err)
		}
		r.cpu += time.Duration(ns)
		status, err := os.ReadFile(filepath.Join(task, "status"))
		if err != nil {
			return r, err
		}
		n, err := field(string(status), "voluntary_ctxt_switches:")
		if err != nil {
			return r, err
		}
		r.switches += n
	}
	return r, nil
}

// field returns the number behind a name in a /proc status file.
func field(status, name string) (int, error) {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			var v int
			_, err := fmt.Sscan(rest, &v)
			return v, err
		}
	}
	return 0, fmt.Errorf("no %s", name)
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
	before, err := read(p.PID())
	if err != nil {
		return f, err
	}
	if err := pause(ctx, period); err != nil {
		return f, err
	}
	after, err := read(p.PID())
	if err != nil {
		return f, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return f, err
	}
	rss, err := field(string(status), "VmRSS:")
	if err != nil {
		return f, err
	}
	peak, err := field(string(status), "VmHWM:")
	if err != nil {
		return f, err
	}
	wakeupsAfter, err := p.Metric(ctx, own)
	if err != nil {
		return f, err
	}
	took := after.at.Sub(before.at)
	f.CPU = result.Round(100 * float64(after.cpu-before.cpu) / float64(took))
	f.OwnWakeups = result.Round((wakeupsAfter - wakeups) / took.Minutes())
	f.Switches = result.Round(float64(after.switches-before.switches) / took.Minutes())
	f.RSS, f.PeakRSS = result.Round(float64(rss)/1024), result.Round(float64(peak)/1024)
	f.Period = result.Round(took.Seconds())
	return f, nil
}
