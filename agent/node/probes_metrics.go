package node

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/bpf"
)

var (
	descAttached = desc("probe_attached", "1 for each kernel program that is attached. usage_reserve is only while an ext4 filesystem is near its line, where the kernel has large folios; elsewhere it is always, and usage_dirty never.", "program")
	descEvents   = desc("probe_events_total", "What the kernel programs counted.", "event")
	descDegraded = desc("probe_degraded", "1 while kernel programs that are wanted are not all attached: lastuse (without it last use comes from runtime events), usage_TYPE (without it the disk is read by timer), writers and writers_TYPE (who fills the disk), heat (what of images is read); all: none could be loaded. TYPE is one of the watched filesystems'.", "object")
	descCounts   = desc("kernel_counts_readable", "1 if what the kernel programs count could be read for this scrape, by what: events, writers (who fills the disk), heat (what of images is read). At 0 these figures are missing; without a series nothing is counted.", "counts")
	descLost     = desc("probe_events_lost_total", "What the kernel programs could not record; the next exact reading mends it.", "event")
)

// probeCollector reads the kernel's counters when it is scraped.
type probeCollector struct {
	m   *Metrics
	cfg config.Config
}

func (c *probeCollector) Describe(out chan<- *prometheus.Desc) {
	out <- descAttached
	out <- descEvents
	out <- descLost
	out <- descDegraded
	out <- descCounts
}

// countsReadable says whether counts could be read. An error must not take the
// other metrics away.
func countsReadable(what string, err error, out chan<- prometheus.Metric) bool {
	out <- prometheus.MustNewConstMetric(descCounts, prometheus.GaugeValue, number(err == nil), what)
	return err == nil
}

func (c *probeCollector) Collect(out chan<- prometheus.Metric) {
	probes := c.m.probes.Load()
	if probes == nil {
		if c.m.unloaded.Load() && c.cfg.Kernel.Enabled {
			out <- prometheus.MustNewConstMetric(descDegraded, prometheus.GaugeValue, 1, "all")
		}
		return
	}
	status := (*probes).Status()
	c.degraded(status, out)
	for _, s := range status {
		out <- prometheus.MustNewConstMetric(descAttached, prometheus.GaugeValue, number(s.Attached), s.Name)
	}
	n, err := (*probes).Counters()
	if !countsReadable("events", err, out) {
		return
	}
	for _, e := range n.Events() {
		out <- prometheus.MustNewConstMetric(descEvents, prometheus.CounterValue, float64(e.Count), e.Event)
	}
	for _, e := range n.Lost() {
		out <- prometheus.MustNewConstMetric(descLost, prometheus.CounterValue, float64(e.Count), e.Event)
	}
}

// degraded says of each object whether it does its work, if that is wanted. A program
// that waits for the module of its filesystem is not missed: none is mounted.
func (c *probeCollector) degraded(status []bpf.ProgramStatus, out chan<- prometheus.Metric) {
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
		out <- prometheus.MustNewConstMetric(descDegraded, prometheus.GaugeValue, is, object)
	}
}

// wanted: the configuration asks for what the object does, and there is a
// filesystem for it.
func (c *probeCollector) wanted(object string) bool {
	does, fsType, _ := strings.Cut(object, "_")
	switch {
	case does == "heat" && c.cfg.Kernel.LayerHeat == config.HeatOff, does == "writers" && c.cfg.Writers.Top == 0:
		return false
	case fsType == "":
		return true
	}
	w := c.m.filesystems.Load()
	return w != nil && slices.ContainsFunc(w.list, func(f watchedFilesystem) bool { return f.kind == fsType })
}
