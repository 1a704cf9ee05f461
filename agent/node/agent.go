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

// Options is what an Agent is made of. Probes, Cgroups, Pods, Events, Sources and Rested may be left out; all else is
// required.
type Options struct {
	Config   config.Config
	Dial     func(ctx context.Context) (Runtime, error)
	Probes   Probes // nil: none could be loaded; NoProbes says why
	NoProbes error
	Cgroups  stats.Cgroups // nil: who fills the disk is counted, but has no names
	Pods     pods.Source   // nil: nobody knows which pods are bound to this node
	Events   events.Poster // nil: no Kubernetes Events about this node
	Disk     Disk
	Log      *slog.Logger
	Sources  clock.Sources // the zero value: the machine's
	Rested   func()        // called by the loop when work that only a start has is over; may be nil
}

// Agent keeps the filesystems of one node low. Make it with New, run it once.
type Agent struct {
	*parts
	dial   func(ctx context.Context) (Runtime, error)
	rested func() // may be nil
	disk   Disk
	bootID string
	in     inbox

	// What takes long is done by these, beside the loop.
	looks *looks // at the images, which go if they must
	disks *disks // after a crossing or a deadline
	dead  *dead  // containers, and what pods want
	ended sync.WaitGroup

	admin  *admin
	learnt learnt
}

// inbox has the channels into the loop. Each has one producer.
type inbox struct {
	connected chan Runtime
	events    chan inventory.Event // taken under the monitor alone, so that none overtakes another
	news      chan struct{}        // there are events
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

// Run works until ctx is done, then saves the state and returns nil. It
// returns an error only for what no retry can mend.
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
	g.Go(func() error { return a.admin.serve(ctx) })
	return g.Wait()
}

func ignoreDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// watchMounts is the goroutine that waits for mounts to change. Without it they
// are followed all the same, with each look.
func (a *Agent) watchMounts(ctx context.Context) error {
	err := a.disk.WatchMounts(ctx, a.cfg.Filesystems.MountInfo, a.in.mounts)
	if ctx.Err() == nil {
		a.log.Warn("cannot watch mounts; reading them every "+a.cfg.ReconcileInterval.String(), "reason", err)
	}
	return nil
}
