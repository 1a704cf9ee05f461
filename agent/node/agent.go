package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/events"
	"github.com/ebb-agent/ebb/agent/node/pods"
	"github.com/ebb-agent/ebb/agent/node/stats"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// Options configures an Agent. Probes, Cgroups, Pods, Events, Sources and Rested are optional; all
// other fields are required.
type Options struct {
	Config   config.Config
	Dial     func(ctx context.Context) (Runtime, error)
	Probes   Probes // nil: none could be loaded; NoProbes is the reason
	NoProbes error
	Cgroups  stats.Cgroups // nil: writers are counted, but not named
	Pods     pods.Source   // nil: the pods of this node are not known
	Events   events.Poster // nil: no Kubernetes Events about this node
	Disk     Disk
	Log      *slog.Logger
	Sources  clock.Sources // zero: the machine's clocks
	Rested   func()        // called when the work of the start, or of a reconcile, is over; may be nil
}

// Agent keeps the filesystems of one node below their thresholds. Make it with New, and run it once.
type Agent struct {
	*parts
	dial   func(ctx context.Context) (Runtime, error)
	disk   Disk
	bootID string
	in     inbox

	// The workers do what takes long, each in a goroutine of its own.
	looks *looks // reads the images, and removes them if needed
	disks *disks // reads filesystems after a crossing or a deadline
	dead  *dead  // looks for dead containers, and reads the pods
	ended sync.WaitGroup

	admin  *admin
	learnt learnt
}

// inbox has the channels into the loop. Each has one producer.
type inbox struct {
	connected chan Runtime
	events    chan inventory.Event // received only under the monitor, so that they stay in order
	news      chan struct{}        // signals that events has some
	crossings chan bpf.Crossing
	mounts    chan struct{}
	podsNews  chan struct{}
}

// New checks the configuration's keep rules and reads this boot's identity. It
// starts nothing.
func New(o Options) (*Agent, error) {
	keep, err := image.ParseKeepRules(o.Config.Images.Keep)
	if err != nil {
		return nil, fmt.Errorf("images.keep: %w", err)
	}
	a := newAgent(o, keep)
	if a.bootID, err = clock.BootID(); err != nil {
		return nil, err
	}
	a.health.setReady("starting: the container runtime has not answered yet")
	return a, nil
}

// Run works until ctx is done, then saves the state and returns nil. It returns an error only if no
// retry can help.
func (a *Agent) Run(ctx context.Context) error {
	if err := a.openState(); err != nil {
		return err
	}
	a.kernel.adopt()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.connect(ctx) })
	g.Go(func() error { return a.lastUse.Layers().Run(ctx) })
	a.ended.Add(3)
	for w, work := range map[*worker]func(context.Context){&a.looks.worker: a.looks.work, &a.disks.worker: a.disks.work, &a.dead.worker: a.dead.work} {
		g.Go(func() error {
			defer a.ended.Done()
			return w.run(ctx, a.monitor, work)
		})
	}
	g.Go(func() error { return a.loop(ctx) })
	g.Go(func() error { return a.watchMounts(ctx) })
	g.Go(func() error { return a.saver.Run(ctx) })
	g.Go(func() error { return a.history.Run(ctx) })
	g.Go(func() error { return a.workloads.Run(ctx) })
	g.Go(func() error { return a.events.Run(ctx) })
	if a.kernel.probes != nil {
		g.Go(func() error { return ignoreDone(ctx, a.kernel.probes.Crossings(ctx, a.in.crossings)) })
	}
	if source := a.pods.Source; source != nil {
		g.Go(func() error { return ignoreDone(ctx, source.Run(ctx, a.in.podsNews)) })
	}
	if kubelet, ok := a.pods.Source.(stats.KubeletSettings); ok {
		g.Go(func() error { return a.kubelet.Run(ctx, kubelet) })
	}
	g.Go(func() error { return a.admin.serve(ctx) })
	err := g.Wait()
	if a.rt != nil { // nothing uses it any more
		if failed := a.rt.Close(); failed != nil {
			a.log.Debug("close runtime connection", "error", failed)
		}
	}
	return err
}

func ignoreDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// watchMounts is the goroutine that reports changes of mounts. If it fails, each look still finds the
// changes.
func (a *Agent) watchMounts(ctx context.Context) error {
	err := a.disk.WatchMounts(ctx, a.cfg.Filesystems.MountInfo, a.in.mounts)
	if ctx.Err() == nil {
		a.log.Warn("cannot watch mounts; reading them every "+a.cfg.ReconcileInterval.String(), "reason", err)
	}
	return nil
}
