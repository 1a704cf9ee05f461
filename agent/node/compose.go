package node

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/events"
	"github.com/ebb-agent/ebb/agent/node/history"
	"github.com/ebb-agent/ebb/agent/node/lastuse"
	"github.com/ebb-agent/ebb/agent/node/monitor"
	"github.com/ebb-agent/ebb/agent/node/pods"
	"github.com/ebb-agent/ebb/agent/node/reclaim"
	"github.com/ebb-agent/ebb/agent/node/removal"
	"github.com/ebb-agent/ebb/agent/node/saver"
	"github.com/ebb-agent/ebb/agent/node/stats"
	"github.com/ebb-agent/ebb/agent/node/watermark"
	"github.com/ebb-agent/ebb/agent/node/workloads"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/wait"
)

// Registry returns the metrics that an agent with this configuration exports, for generated documents.
func Registry(cfg config.Config) *prometheus.Registry {
	return newAgent(Options{Config: cfg, Log: slog.New(slog.DiscardHandler)}, nil).registry
}

// base is what all parts of the agent share. Alarms are used only under the monitor.
type base struct {
	cfg        config.Config
	log        *slog.Logger
	registry   *prometheus.Registry
	metrics    *metrics
	conditions *condition.Set
	monitor    *monitor.Monitor
	health     *health
	sources    clock.Sources
	clock      *clock.Clock // based on sources; nil until the state is open
	alarms     alarms
	switches   *removal.Switch
	stopped    bool // by the pause file, as far as the log shows
	rested     func()
}

func newBase(o Options) base {
	r, m, conditions := prometheus.NewRegistry(), monitor.New(), condition.NewSet(o.Log)
	switches := &removal.Switch{Observe: o.Config.Mode == config.ModeObserve, File: removal.PauseFile(o.Config.PauseFile)}
	return base{
		cfg: o.Config, log: o.Log, registry: r, metrics: newMetrics(r, o.Config, switches, m), conditions: conditions, monitor: m,
		health: newHealth(r, m, o.Sources.Boot, o.Config.Mode, conditions), sources: o.Sources, switches: switches, rested: o.Rested,
	}
}

func (b *base) now() time.Time { return b.clock.Now() }

// sleep releases the monitor and waits for d. It returns false if ctx ends first.
func (b *base) sleep(ctx context.Context, d time.Duration) (slept bool) {
	b.monitor.Outside(func() { slept = wait.Sleep(ctx, d) })
	return slept
}

// parts are what the loop, its workers and the server share. Each part registers its own metrics. All
// except the statistics are used only under the monitor.
type parts struct {
	base
	rt        Runtime // nil: not connected yet
	kernel    kernel
	lastUse   *lastuse.Tracker
	watermark *watermark.Watcher
	pods      *pods.Pods
	reclaim   *reclaim.Reclaimer
	workloads *workloads.Workloads
	saver     *saver.Saver
	events    *events.Recorder
	history   *history.History
	heat      *stats.Heat
	writers   *stats.Writers
	unused    *stats.Unused
	kubelet   *stats.Kubelet
}

// newAgent composes an agent. It starts nothing.
func newAgent(o Options, keep image.KeepRules) *Agent {
	if o.Sources.Boot == nil {
		o.Sources = clock.System()
	}
	if o.Rested == nil {
		o.Rested = func() {}
	}
	p := &parts{base: newBase(o)}
	p.switches.Now = p.now
	a := &Agent{parts: p, dial: o.Dial, disk: o.Disk, in: inbox{
		connected: make(chan Runtime),
		events:    make(chan inventory.Event, 256),
		news:      make(chan struct{}, 1),
		crossings: make(chan bpf.Crossing, 16),
		mounts:    make(chan struct{}),
		podsNews:  make(chan struct{}, 1),
	}}
	a.looks = &looks{parts: p, worker: newWorker(), hear: a.takeEvents, retryWait: retryFirst, shown: shown{news: make(chan struct{})}}
	a.disks = &disks{parts: p, worker: newWorker(), looks: a.looks}
	a.dead = &dead{parts: p, worker: newWorker(), looks: a.looks}
	a.admin = &admin{parts: p, looks: a.looks}
	a.history = history.New(a.registry, history.Options{Now: a.now, Wall: o.Sources.Wall, Conditions: a.conditions})
	a.saver = saver.New(a.registry, saver.Options{
		Directory: o.Config.State.Directory, Now: a.now, Conditions: a.conditions, Log: o.Log, Records: a.records,
		Opened: a.history.Attach,
	})
	p.events = events.New(p.registry, events.Options{Poster: o.Events, Conditions: p.conditions, Log: o.Log})
	p.composeImages(o, keep, a.looks)
	p.workloads = workloads.New(p.registry, workloads.Options{
		Config: o.Config, Switch: p.switches, Pods: p.pods, Now: p.now, Wall: o.Sources.Wall, Outside: p.health.outside, Conditions: p.conditions, Log: o.Log,
		History: p.history,
	})
	return a
}

// composeImages builds the parts that decide about images, and the statistics of their use.
func (p *parts) composeImages(o Options, keep image.KeepRules, l *looks) {
	f := program.Factory{Registry: p.registry, Subsystem: "node"}
	filesystems := watermark.NewMetrics(f)
	p.lastUse = lastuse.New(lastuse.Options{
		Probes: o.Probes, Disk: o.Disk, Conditions: p.conditions, Log: o.Log, Metrics: lastuse.NewMetrics(f), Tell: p.events.Record,
		Settled: func() { p.alarms.set(alarmRest, p.now().Add(restPause)) }, Outside: p.health.outside,
	})
	p.kernel = kernel{probes: o.Probes, missing: o.NoProbes, config: o.Config, lastUse: p.lastUse, conditions: p.conditions, log: o.Log}
	p.watermark = watermark.New(watermark.Options{
		Config: o.Config, Disk: o.Disk, Probes: o.Probes, CatchUp: p.kernel.catchUp, Conditions: p.conditions, Log: o.Log,
		Metrics: filesystems, Now: p.now, Boot: o.Sources.Boot, Outside: p.health.outside,
	})
	p.pods = pods.New(p.registry, pods.Options{
		Source: o.Pods, Name: o.Config.Pods.Source, Now: p.now, Outside: p.health.outside, Conditions: p.conditions, Back: l.podsKnown,
		Changed: l.wantedChanged,
	})
	p.composeStats(o, filesystems)
	p.reclaim = reclaim.New(p.registry, reclaim.Options{
		Config: o.Config, Keep: keep, Switch: p.switches, Disks: p.watermark, LastUse: p.lastUse, Pods: p.pods, Conditions: p.conditions, Log: o.Log,
		Now: p.now, Boot: o.Sources.Boot, Outside: p.health.outside, Sleep: p.sleep,
		Save:        p.saver.Save,
		Saved:       p.saver.Saved,
		LookAgain:   func(at time.Time) { p.alarms.sooner(alarmRetry, at) },
		HearEvents:  l.hearEvents,
		WritersGrew: p.writers.GrewMost,
		Tell:        p.events.Record,
		History:     p.history,
	})
}

// composeStats builds the statistics. No decision depends on them.
func (p *parts) composeStats(o Options, filesystems *watermark.Metrics) {
	notLoaded, noHeat, noWriters := "", "", ""
	if o.Probes == nil {
		if notLoaded = "no programs are loaded"; o.NoProbes != nil {
			notLoaded = o.NoProbes.Error()
		}
	}
	if o.Config.Kernel.LayerHeat == config.HeatOff {
		noHeat = "switched off by kernel.layerHeat"
	}
	if o.Config.Writers.Top == 0 {
		noWriters = "switched off by writers.top"
	}
	p.heat = stats.NewHeat(p.registry, o.Probes, cmp.Or(notLoaded, noHeat), o.Sources, p.conditions)
	p.writers = stats.NewWriters(p.registry, o.Probes, cmp.Or(notLoaded, noWriters), o.Cgroups, o.Config.Writers.Top, o.Sources, p.conditions)
	p.unused = stats.NewUnused(p.registry)
	p.kubelet = stats.NewKubelet(p.registry, o.Config.Kubelet.ImageGCHighThresholdPercent, o.Log)
	stats.NewPrograms(p.registry, o.Probes, o.NoProbes, o.Config, filesystems.Watches)
}
