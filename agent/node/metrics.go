package node

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/policy/image"
)

// Metrics is everything the node agent exports. docs/metrics.md is generated
// from its registry. The sets of labels are fixed here and bounded, and
// every series exists from the start; only who fills the disk is named as on the
// node, as many as the configuration allows.
type Metrics struct {
	Registry *prometheus.Registry

	images          *prometheus.GaugeVec
	spaceHeld       *prometheus.GaugeVec
	holding         prometheus.Gauge
	runs            *prometheus.CounterVec
	imagesRemoved   *prometheus.CounterVec
	removalFailures prometheus.Counter
	spared          prometheus.Counter
	mended          prometheus.Counter
	again           prometheus.Counter
	againBytes      prometheus.Counter
	freedBytes      prometheus.Counter
	shortfalls      prometheus.Counter
	unsettled       prometheus.Counter
	reaction        prometheus.Histogram
	dead            *prometheus.GaugeVec
	reaped          *prometheus.CounterVec
	reapFailures    *prometheus.CounterVec
	reapSpared      *prometheus.CounterVec
	podsUp          prometheus.Gauge
	crossings       *prometheus.CounterVec
	mounts          prometheus.Counter
	polls           prometheus.Counter
	unresolved      prometheus.Counter
	tracked         prometheus.Gauge
	wakeups         prometheus.Counter
	reconciles      prometheus.Counter
	lookFailures    prometheus.Counter
	lastSuccess     prometheus.Gauge
	ready           prometheus.Gauge
	runtimeUp       prometheus.Gauge
	dialFailures    prometheus.Counter
	statePersisted  prometheus.Gauge
	saveFailures    prometheus.Counter

	filesystems atomic.Pointer[watched]
	probes      atomic.Pointer[Probes]
	writers     atomic.Pointer[writers]
	heat        atomic.Pointer[heat]
	use         atomic.Pointer[imageUse]
	unloaded    atomic.Bool // there are no kernel programs, and will be none
}

// keptReasons are the states an image can be in besides being removed.
var keptReasons = []image.Reason{
	image.KeptBlocked, image.KeptInUse, image.KeptWanted, image.KeptPinned, image.KeptSandbox, image.KeptByRule,
	image.KeptPodsUnknown, image.KeptYoung, image.KeptFailed, image.KeptNotNeeded, image.KeptFreesNothing, image.KeptFutile, image.KeptHold,
}

var removedReasons = []image.Reason{image.RemovedThreshold, image.RemovedAge}

var results = []string{resultLow, resultAge, resultHold, resultCapped, resultShortfall, resultIncomplete, resultObserved}

// NewMetrics registers everything with a registry of its own.
func NewMetrics(cfg config.Config) *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry()}
	f := program.Factory{Registry: m.Registry, Subsystem: "node"}
	m.registerImages(f)
	m.registerRuns(f)
	m.registerHealth(f)
	m.registerDead(f)
	m.zero()
	m.Registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&filesystemCollector{m: m},
		&probeCollector{m: m, cfg: cfg},
		&writersCollector{m: m},
		&heatCollector{m: m},
		&useCollector{m: m},
		program.BuildInfo(),
		configInfo(cfg),
	)
	return m
}

func (m *Metrics) registerImages(f program.Factory) {
	m.images = f.Gauges("images", "Images by the verdict of the last decision.", "state")
	m.spaceHeld = f.Gauges("space_held_bytes", "While holding: what holds the space of the filesystems with images.", "by")
	m.holding = f.Gauge("holding", "1 while the low line cannot be reached and the agent waits for something to change.")
	m.tracked = f.Gauge("layers_tracked", "Top layers of images whose uses the kernel stamps.")
	m.unresolved = f.Counter("layer_resolve_failures_total", "Layers whose directory could not be found yet; tried again later.")
}

func (m *Metrics) registerRuns(f program.Factory) {
	m.runs = f.Counters("reclaim_runs_total", "Reclaim runs by what started them and how they ended.", "trigger", "result")
	m.imagesRemoved = f.Counters("images_removed_total", "Images removed, by reason.", "reason")
	m.removalFailures = f.Counter("image_removal_failures_total", "Removals that the runtime refused.")
	m.spared = f.Counter("images_spared_total", "Images that the check before removal found needed after all.")
	m.mended = f.Counter("images_mended_total", "Images whose names were put back because their removal was begun and never ended.")
	m.freedBytes = f.Counter("image_freed_bytes_total", "Bytes by which the available space of the filesystem that was over its line grew during removals, as measured, and no more than what they were computed to free: others may delete at the same time.")
	m.again = f.Counter("images_pulled_again_total", "Images that came back within a day of their removal by ebb: each cost a pull.")
	m.againBytes = f.Counter("images_pulled_again_bytes_total", "What the removal of those had freed, as computed.")
	m.shortfalls = f.Counter("image_shortfalls_total", "Removals after which the space grew less than computed, although the figure is true.")
	m.unsettled = f.Counter("image_unsettled_total", "Times the filesystem's figure could not be made true in time, before a decision or after a removal; reclaim goes on with what was computed.")
	m.crossings = f.Counters("line_crossings_total", "Crossings of a line that the kernel reported, by the first name of the filesystem.", "filesystem")
	m.reaction = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "ebb", Subsystem: "node", Name: "crossing_to_first_removal_seconds",
		Help:    "From the write that crossed the high line to the first removal done.",
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
	})
	f.Registry.MustRegister(m.reaction)
}

func (m *Metrics) registerHealth(f program.Factory) {
	m.polls = f.Counter("disk_polls_total", "Readings of the disk by timer, where the kernel cannot raise a line.")
	m.mounts = f.Counter("mount_reports_total", "Times the kernel reported that mounts have changed, anywhere on the node; several changes can be one report.")
	m.wakeups = f.Counter("own_wakeups_total", "Times the agent woke by its own timers.")
	m.reconciles = f.Counter("reconciles_total", "Looks at everything that no event caused: the safety net.")
	m.lookFailures = f.Counter("look_failures_total", "Times the node could not be read.")
	m.lastSuccess = f.Gauge("last_success_timestamp_seconds", "Unix time at which everything was last read and decided.")
	m.ready = f.Gauge("ready", "1 while the agent can do its job, as /readyz says.")
	m.runtimeUp = f.Gauge("runtime_events_up", "1 while the runtime's event stream is connected.")
	m.dialFailures = f.Counter("runtime_dial_failures_total", "Attempts to reach the container runtime that failed.")
	m.statePersisted = f.Gauge("state_persisted", "1 while the state file can be written.")
	m.saveFailures = f.Counter("state_save_failures_total", "Writes of the state file that failed; the next one tries again.")
}

// zero makes every series exist, so that a rate over it is true from the start.
func (m *Metrics) zero() {
	for _, r := range keptReasons {
		m.images.WithLabelValues(string(r))
		m.spaceHeld.WithLabelValues(string(r))
	}
	for _, by := range []string{image.SpaceOtherHolders, image.SpaceUnreferenced, image.SpaceNotImages} {
		m.spaceHeld.WithLabelValues(by)
	}
	for _, r := range removedReasons {
		m.images.WithLabelValues(string(r))
		m.imagesRemoved.WithLabelValues(string(r))
		for _, result := range results {
			m.runs.WithLabelValues(string(r), result)
		}
	}
	for _, name := range fsNames {
		m.crossings.WithLabelValues(name)
	}
}

// configInfo is what of the configuration decides how other metrics are to be read.
func configInfo(c config.Config) prometheus.Collector {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "ebb", Subsystem: "node", Name: "config_info",
		Help: "1, labelled with what the configuration says of mode, pods.source and kernel.enabled.",
	}, []string{"mode", "pods", "kernel"})
	g.WithLabelValues(string(c.Mode), c.Pods.Source, strconv.FormatBool(c.Kernel.Enabled)).Set(1)
	return g
}

func (m *Metrics) removed(reason image.Reason, gain uint64) {
	m.imagesRemoved.WithLabelValues(string(reason)).Inc()
	m.freedBytes.Add(float64(gain))
}

// hold shows what holds the space, on all filesystems that hold together.
func (m *Metrics) hold(holds ...*image.Hold) {
	for _, by := range append([]image.Reason{image.SpaceOtherHolders, image.SpaceUnreferenced, image.SpaceNotImages}, keptReasons...) {
		m.spaceHeld.WithLabelValues(string(by)).Set(0)
	}
	m.holding.Set(0)
	for _, h := range holds {
		if h == nil {
			continue
		}
		m.holding.Set(1)
		for _, s := range h.Space {
			m.spaceHeld.WithLabelValues(s.By).Add(float64(s.Bytes))
		}
	}
}

// exportPlan counts the images by verdict, and by last use.
func (a *Agent) exportPlan() {
	a.exportUse()
	count := make(map[image.Reason]int)
	for _, d := range a.target.plan.Keep {
		count[d.Reason]++
	}
	for _, d := range a.target.plan.Remove {
		count[d.Reason]++
	}
	for _, r := range append(removedReasons[:len(removedReasons):len(removedReasons)], keptReasons...) {
		a.metrics.images.WithLabelValues(string(r)).Set(float64(count[r]))
	}
}
