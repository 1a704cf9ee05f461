package stats

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/metric"
	"github.com/ebb-agent/ebb/bpf"
)

var (
	descEvents   = metric.Desc("probe_events_total", "Events that the kernel programs for last use recorded: starts and ends of processes in containers, and uses of layers. A use is stamped, or noted if the layer was not tracked yet. ebb-agent report shows the events of the other programs.", "event")
	descDegraded = metric.Desc("probe_degraded", "1 while some of the wanted kernel programs are not attached. lastuse: last use comes from the runtime's events. usage_TYPE: the disk is read by timer. writers, writers_TYPE: growth is not counted by container. heat: reads of images are not counted. all: no program could be loaded. TYPE is the type of a watched filesystem.", "object")
	descLost     = metric.Desc("probe_events_lost_total", "Events that the kernel programs could not record. The next exact reading corrects that. Programs that the configuration switches off have no series.", "event")
)

// ProgramProbes is what Programs needs of the kernel programs.
type ProgramProbes interface {
	Status() []bpf.ProgramStatus
	Counters() (bpf.Counters, error)
}

// Programs exports what runs in the kernel, and what it counted. It reads both when it is scraped.
type Programs struct {
	probes  ProgramProbes // nil: there are none, and will be none
	missing bool          // they are wanted, and could not be loaded
	cfg     config.Config
	watches func(fsType string) bool
}

// NewPrograms registers a Programs collector. Without probes, why is the error of loading them, or
// nil. watches reports whether a filesystem of a type is watched.
func NewPrograms(r prometheus.Registerer, probes ProgramProbes, why error, cfg config.Config, watches func(fsType string) bool) {
	r.MustRegister(&Programs{probes: probes, missing: why != nil && cfg.Kernel.Enabled, cfg: cfg, watches: watches})
}

// Describe implements prometheus.Collector.
func (c *Programs) Describe(out chan<- *prometheus.Desc) {
	out <- descEvents
	out <- descLost
	out <- descDegraded
	out <- metric.DescReadable
}

// Collect implements prometheus.Collector.
func (c *Programs) Collect(out chan<- prometheus.Metric) {
	if c.probes == nil {
		if c.missing {
			metric.Gauge(out, descDegraded, 1, "all")
		}
		return
	}
	c.degraded(c.probes.Status(), out)
	n, err := c.probes.Counters()
	if !metric.Readable(out, "events", err) {
		return
	}
	for event, count := range map[string]uint64{"exec": n.Execs, "exit": n.Exits, "stamped": n.Stamped, "unresolved": n.Unresolved} {
		metric.Counter(out, descEvents, float64(count), event)
	}
	for _, e := range n.Lost() {
		if !SwitchedOff(c.cfg, e.Event) {
			metric.Counter(out, descLost, float64(e.Count), e.Event)
		}
	}
}

// degraded exports whether each wanted object does its work. A program that waits for the module of
// its filesystem counts as working, because no such filesystem is mounted.
func (c *Programs) degraded(status []bpf.ProgramStatus, out chan<- prometheus.Metric) {
	broken := make(map[string]float64)
	for _, s := range status {
		if !c.wanted(s.Object) {
			continue
		}
		if broken[s.Object] += 0; !s.Working() && !s.Waits {
			broken[s.Object] = 1
		}
	}
	for object, is := range broken {
		metric.Gauge(out, descDegraded, is, object)
	}
}

// wanted reports whether the configuration asks for what the object does, and a filesystem for it
// is watched.
func (c *Programs) wanted(object string) bool {
	_, fsType, _ := strings.Cut(object, "_")
	return !SwitchedOff(c.cfg, object) && (fsType == "" || c.watches(fsType))
}

// SwitchedOff reports whether the configuration leaves out the programs of an object, or of an event that is
// named after them: those for heat, or for writers.
func SwitchedOff(cfg config.Config, object string) bool {
	does, _, _ := strings.Cut(object, "_")
	return does == "heat" && cfg.Kernel.LayerHeat == config.HeatOff || does == "writers" && cfg.Writers.Top == 0
}
