package node

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

const (
	// eventPause is how long a burst of runtime events is collected before the
	// world is looked at again, and eventSpacing the least time between two
	// such looks: a look lists the whole runtime.
	eventPause   = 500 * time.Millisecond
	eventSpacing = 5 * time.Second

	// restPause is how long after the first look, and after all layers are known, the
	// work of the start counts as over: the state has been saved then.
	restPause = 5 * time.Second

	// calmSpacing is eventSpacing for containers that come and go while the
	// disk is low: their uses are stamped anyway, nothing is to be decided.
	calmSpacing = 30 * time.Second

	// retryFirst and retryMost bound the wait after a failed look.
	retryFirst = time.Second
	retryMost  = time.Minute
)

// Options is what an Agent is made of. Probes, Cgroups, Pods and Rested may be left out; all else is
// required.
type Options struct {
	Config   config.Config
	Dial     func(ctx context.Context) (Runtime, error)
	Probes   Probes // nil: none could be loaded; NoProbes says why
	NoProbes error
	Cgroups  Cgroups   // nil: who fills the disk is counted, but has no names
	Pods     PodSource // nil: nobody knows which pods are bound to this node
	Disk     Disk
	Log      *slog.Logger
	Metrics  *Metrics
	Rested   func() // called by the loop when work that only a start has is over; may be nil
}

// Agent keeps the filesystems of one node low. Make it with New, run it once.
type Agent struct {
	cfg      config.Config
	keep     image.KeepRules
	dial     func(ctx context.Context) (Runtime, error)
	probes   Probes
	noProbes error
	cgroups  Cgroups
	pods     PodSource
	rested   func() // may be nil
	disk     Disk
	log      *slog.Logger
	metrics  *Metrics
	clock    *clock
	bootID   string
	boot     func() time.Duration // CLOCK_BOOTTIME
	wall     func() time.Time

	// Channels into the loop. Each has one producer.
	connected chan Runtime
	events    chan inventory.Event
	crossings chan bpf.Crossing
	mounts    chan struct{}
	resolved  chan resolution
	saved     chan error
	questions chan question
	podsNews  chan struct{}
	reports   chan reaped
	// Channels out of the loop.
	toReap    chan batch
	toResolve chan []inventory.Layer
	toSave    chan state.Records

	// Set by the connector. resolverRuntime is set before connected is sent.
	resolverRuntime atomic.Pointer[Runtime]

	// notReady says what /readyz lacks; nil if nothing.
	notReady atomic.Pointer[string]

	// beat is the CLOCK_BOOTTIME of the loop's last sign of life, for /healthz.
	beat atomic.Int64

	// Everything below belongs to the loop.
	rt          Runtime
	rec         state.Records
	roots       inventory.Roots // where the runtime keeps its things; zero: not asked
	directories []directory
	filesystems []*filesystem              // that they are on
	stores      []*store                   // those of them with images
	target      *store                     // of stores, the one that reclaim works, or worked last, on
	known       map[string]inventory.Image // latest inventory by ID
	stamped     map[string]bool            // images that the kernel has stamped since Meta.Listed, by ID
	unheard     bool                       // events may have been lost since noteContainers
	heard       time.Time                  // since when none is lost; zero: they do not come
	latest      *inventory.Inventory       // nil: to be read again
	told        bool                       // the runtime has told of something since
	lastLook    time.Time
	failures    map[string]failure // by image ID
	layers      layerBook
	alarms      alarms
	retryWait   time.Duration
	saving      bool
	saveAgain   bool
	factsSaved  uint64                                 // of the runtime's changes of what it has learnt; 0: write all
	writersOn   []uint64                               // the filesystems whose writers are counted
	snapshots   map[inventory.Layer]inventory.Snapshot // of the latest inventory
	strangeHeat map[bpf.HeatKey]bool                   // layers of no image at the last time
	said        said
	toldPlan    string // what observe mode said last
	podBook     podBook
	unmended    bool // withdrawn images may have been left without their names
	brokeOff    bool // the events of this runtime did, and have not come back
	away        awayBook
	dead        deadBook
}

// New checks the configuration's keep rules and reads this boot's identity. It
// starts nothing.
func New(o Options) (*Agent, error) {
	a := &Agent{
		cfg: o.Config, dial: o.Dial, probes: o.Probes, noProbes: o.NoProbes, cgroups: o.Cgroups, pods: o.Pods, rested: o.Rested,
		disk: o.Disk, log: o.Log, metrics: o.Metrics,
		connected:   make(chan Runtime),
		events:      make(chan inventory.Event, 256),
		crossings:   make(chan bpf.Crossing, 16),
		mounts:      make(chan struct{}),
		resolved:    make(chan resolution),
		saved:       make(chan error),
		questions:   make(chan question),
		podsNews:    make(chan struct{}, 1),
		reports:     make(chan reaped),
		toReap:      make(chan batch, 1),
		toResolve:   make(chan []inventory.Layer, 1),
		toSave:      make(chan state.Records, 1),
		rec:         state.New(),
		directories: newDirectories(o.Config),
		failures:    make(map[string]failure),
		layers:      newLayerBook(),
		away:        make(awayBook),
		stamped:     make(map[string]bool),
		unheard:     true,
		dead:        newDeadBook(),
		retryWait:   retryFirst, boot: bootTime, wall: time.Now,
	}
	var err error
	if a.keep, err = image.ParseKeepRules(o.Config.Images.Keep); err != nil {
		return nil, fmt.Errorf("images.keep: %w", err)
	}
	if a.bootID, err = bootID(); err != nil {
		return nil, err
	}
	a.setReady("starting: the container runtime has not answered yet")
	return a, nil
}

// Run works until ctx is done, then saves the state and returns nil. It
// returns an error only for what no retry can mend.
func (a *Agent) Run(ctx context.Context) error {
	saver, err := a.openState()
	if err != nil {
		return err
	}
	a.adoptProbes()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.connect(ctx) })
	g.Go(func() error { return a.resolve(ctx) })
	g.Go(func() error { return a.loop(ctx) })
	g.Go(func() error { return a.watchMounts(ctx) })
	g.Go(func() error { return saver.run(a.toSave, a.saved) })
	g.Go(func() error { return a.newReaper().run(ctx, a.toReap, a.reports) })
	if a.probes != nil {
		g.Go(func() error { return ignoreDone(ctx, a.probes.Crossings(ctx, a.crossings)) })
	}
	if a.pods != nil {
		g.Go(func() error { return ignoreDone(ctx, a.pods.Run(ctx, a.podsNews)) })
	}
	if a.cfg.Server.Address != "" {
		g.Go(func() error { return a.serve(ctx) })
	}
	return g.Wait()
}

func ignoreDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// loop is the one goroutine that owns the agent's state.
func (a *Agent) loop(ctx context.Context) error {
	defer a.finish()
	a.reconcileAt(a.clock.now())
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		a.alive()
		var ring <-chan time.Time
		if wait, ok := a.alarms.next(a.clock.now()); ok {
			timer.Reset(wait)
			ring = timer.C
		}
		select {
		case <-ctx.Done():
			return nil
		case rt := <-a.connected:
			a.runtimeUp(ctx, rt)
		case c := <-a.crossings:
			a.crossed(ctx, c)
		case <-a.mounts:
			a.mountsChanged(ctx)
		case e := <-a.events:
			a.runtimeEvent(e)
		case r := <-a.resolved:
			a.layerResolved(r)
		case err := <-a.saved:
			a.saveDone(err)
		case q := <-a.questions:
			a.answer(q)
		case <-a.podsNews:
			a.holdsMayEnd()
			_, _ = a.readPods(ctx) // so that it is saved what they want
			a.tidySoon(tidyPause)
		case r := <-a.reports:
			a.reaped(r)
		case <-ring:
			a.metrics.wakeups.Inc()
			a.rung(ctx)
		}
	}
}

// finish hands the last state to the saver and tells it to end. The saver
// outlives ctx for this.
func (a *Agent) finish() {
	if a.saving {
		a.saving = false
		<-a.saved
	}
	a.harvest()
	a.handOver()
	close(a.toSave)
	<-a.saved
	if a.rt != nil {
		if err := a.rt.Close(); err != nil {
			a.log.Debug("close runtime connection", "error", err)
		}
	}
}

func (a *Agent) alive() { a.beat.Store(int64(a.boot())) }

func (a *Agent) reconcileAt(now time.Time) {
	d := time.Duration(a.cfg.ReconcileInterval)
	jitter := time.Duration(rand.Int64N(int64(d)/5+1)) - d/10
	a.alarms.set(alarmReconcile, now.Add(d+jitter))
}

// rung acts on the alarms that have come.
func (a *Agent) rung(ctx context.Context) {
	now := a.clock.now()
	due := a.alarms.due(now)
	if due[alarmReconcile] {
		a.metrics.reconciles.Inc()
		a.reconcileAt(now)
		a.purgeNoted()
		a.forgetHeat()
	}
	if due[alarmSave] {
		a.save()
	}
	if due[alarmReconcile] || due[alarmPlan] || due[alarmEvents] || due[alarmRetry] {
		a.look(ctx, 0)
	} else if due[alarmPoll] {
		a.poll(ctx)
	}
	if due[alarmResolve] {
		a.resolveMore(now)
	}
	if due[alarmLine] {
		a.tendDue(ctx)
	}
	if due[alarmReconcile] || due[alarmTidy] {
		a.tidy(ctx)
	}
	if due[alarmRest] && a.rested != nil {
		a.rested()
	}
}

// lookFailed notes an error of a whole look and plans the next try.
func (a *Agent) lookFailed(err error) {
	a.metrics.lookFailures.Inc()
	a.setReady(err.Error())
	a.said.once(a.log, "look", slog.LevelWarn, "cannot read the node; trying again", "error", err, "next", a.retryWait.String())
	a.alarms.sooner(alarmRetry, a.clock.now().Add(a.retryWait))
	a.retryWait = min(2*a.retryWait, retryMost)
}

func (a *Agent) lookDone(now time.Time) {
	if a.lastLook.IsZero() {
		a.alarms.set(alarmRest, now.Add(restPause))
	}
	a.retryWait, a.lastLook = retryFirst, now
	if !a.brokeOff {
		a.setReady("")
	}
	a.metrics.lastSuccess.Set(float64(a.wall().Unix()))
	a.said.clear(a.log, "look", "the node can be read again")
}

// setReady tells /readyz what is missing, "" for nothing.
func (a *Agent) setReady(missing string) {
	if missing == "" {
		a.notReady.Store(nil)
		a.metrics.ready.Set(1)
		return
	}
	a.notReady.Store(&missing)
	a.metrics.ready.Set(0)
}
