package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/population"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
)

// measureNode measures the agent's pages on a node with thousands of images, from this process and
// by the command ebb.
func measureNode(ctx context.Context, o options, f figures) (err error) {
	n, err := node.Start(ctx, node.Config{Name: "account", SizeBytes: 8 << 30, Containerd: node.V2})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := (population.Population{Images: o.images, Layers: 5}).Import(ctx, n); err != nil {
		return err
	}
	i, err := agentrun.Install(ctx, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	p, err := agentrun.Start(ctx, agentrun.Options{Binary: o.agent, Dir: n.Dir(), Config: i.Config})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	if err := benchmark.Until(ctx, time.Second, 30*time.Minute, "the layers do not become known", func(ctx context.Context) (bool, error) {
		tracked, err := p.Metric(ctx, "ebb_node_layers_tracked")
		return int(tracked) >= o.images, err
	}); err != nil {
		return err
	}
	if err := benchmark.Pause(ctx, o.rest); err != nil { // until the work of the start is over
		return err
	}
	if err := measurePages(ctx, o, p, f); err != nil {
		return err
	}
	return measureImagesCommand(ctx, o, i.Config.Server.AdminSocket, f)
}

// asked is a request for a page. Without a method it is no request, to measure an idle agent.
type asked struct {
	name, method, path string
	body               any
}

func measurePages(ctx context.Context, o options, p *agentrun.Process, f figures) error {
	images, err := p.Images(ctx)
	if err != nil {
		return err
	}
	one := images.Images[len(images.Images)/2].ID
	var longest []float64
	for _, a := range []asked{
		{"idle", "", "", nil},
		{"status", http.MethodGet, "/status", nil},
		{"images", http.MethodGet, "/images", nil},
		{"why", http.MethodGet, "/why?" + url.Values{"image": {one}}.Encode(), nil},
		{"plan", http.MethodPost, "/plan", page.PlanRequest{FreeBytes: 256 << 20}},
	} {
		w := watchMonitor(ctx, p)
		took, bytes, err := a.ask(ctx, o.runs, p)
		waits, watched := w.stop()
		if err := errors.Join(err, watched); err != nil {
			return err
		}
		wait := slices.Max(waits)
		f.set(a.name+"_monitor_wait_max_ms", wait)
		if a.method == "" {
			continue
		}
		longest = append(longest, wait)
		f.set(a.name+"_page_ms", result.Median(took))
		f.set(a.name+"_page_max_ms", slices.Max(took))
		if a.path == "/images" {
			f.set("images_page_mib", float64(bytes)/(1<<20))
		}
	}
	f.set("monitor_wait_max_ms", slices.Max(longest))
	u, err := p.Usage()
	if err == nil {
		f.set("rss_mib", u.RSSMiB())
		f.set("peak_rss_mib", u.PeakMiB())
	}
	return err
}

// ask requests the page several times and returns how long each request took, in ms, and the size
// of the answer. Without a method, it only lets time pass.
func (a asked) ask(ctx context.Context, runs int, p *agentrun.Process) (took []float64, bytes int, err error) {
	for range runs {
		if err := benchmark.Pause(ctx, 200*time.Millisecond); err != nil {
			return nil, 0, err
		}
		if a.method == "" {
			continue
		}
		var body string
		began := time.Now()
		if err := p.Ask(ctx, a.method, a.path, a.body, &body); err != nil {
			return nil, 0, err
		}
		took, bytes = append(took, time.Since(began).Seconds()*1e3), len(body)
	}
	return took, bytes, nil
}

// monitorWatch repeats a request that takes the agent's monitor and little else. The request waits
// for the monitor, the CPU and the connection, so it is never shorter than the monitor was held.
type monitorWatch struct {
	cancel context.CancelFunc
	done   chan struct{}
	waits  []float64 // ms
	err    error
}

func watchMonitor(ctx context.Context, p *agentrun.Process) *monitorWatch {
	ctx, cancel := context.WithCancel(ctx)
	w := &monitorWatch{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for ctx.Err() == nil && w.err == nil {
			began := time.Now()
			w.err = p.Ask(ctx, http.MethodGet, "/past", nil, nil)
			w.waits = append(w.waits, time.Since(began).Seconds()*1e3)
			_ = benchmark.Pause(ctx, time.Millisecond)
		}
	}()
	return w
}

// stop returns how long each request took, without the last one, which was interrupted.
func (w *monitorWatch) stop() (waits []float64, err error) {
	w.cancel()
	<-w.done
	if errors.Is(w.err, context.Canceled) {
		w.err = nil
	}
	return w.waits[:len(w.waits)-1], w.err
}
