package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/config"
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("ebb", "node", name), help, labels, nil)
}

var (
	descCapacity  = desc("filesystem_capacity_bytes", "Size of the filesystem that holds the images.", "filesystem")
	descAvailable = desc("filesystem_available_bytes", "What unprivileged writers can still get.", "filesystem")
	descUsed      = desc("filesystem_used_percent", "Used space as the kubelet counts it: 100 - floor(available*100/capacity).", "filesystem", "resource")
	descInodes    = desc("filesystem_inodes", "Inodes of the filesystem; 0 where it does not count them.", "filesystem")
	descInodesAv  = desc("filesystem_inodes_available", "Inodes still free.", "filesystem")
	descLine      = desc("filesystem_line_percent", "The lines: reclaim starts at high and ends at low.", "filesystem", "resource", "line")
)

// filesystemCollector reads the disk when it is scraped.
type filesystemCollector struct {
	m      *Metrics
	images config.Images
}

func (c *filesystemCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descCapacity, descAvailable, descUsed, descInodes, descInodesAv, descLine} {
		out <- d
	}
}

func (c *filesystemCollector) Collect(out chan<- prometheus.Metric) {
	const name = "images"
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{name}, labels...)...)
	}
	gauge(descLine, float64(c.images.HighThresholdPercent), "bytes", "high")
	gauge(descLine, float64(c.images.LowThresholdPercent), "bytes", "low")
	gauge(descLine, float64(c.images.InodesHighThresholdPercent), "inodes", "high")
	gauge(descLine, float64(c.images.InodesLowThresholdPercent), "inodes", "low")
	fs := c.m.filesystem.Load()
	if fs == nil {
		return // not found yet: no figure is better than a false one
	}
	d, _, err := fs.disk.Stat(fs.path)
	if err != nil {
		out <- prometheus.NewInvalidMetric(descCapacity, err)
		return
	}
	gauge(descCapacity, float64(d.CapacityBytes))
	gauge(descAvailable, float64(d.AvailableBytes))
	gauge(descUsed, float64(d.UsedPercent()), "bytes")
	gauge(descUsed, float64(d.InodesUsedPercent()), "inodes")
	gauge(descInodes, float64(d.Inodes))
	gauge(descInodesAv, float64(d.InodesAvailable))
}

var (
	descAttached = desc("probe_attached", "1 for each kernel program that is attached.", "program")
	descEvents   = desc("probe_events_total", "What the kernel programs counted.", "event")
	descLost     = desc("probe_events_lost_total", "What the kernel programs could not record; the next exact reading mends it.", "event")
)

// probeCollector reads the kernel's counters when it is scraped.
type probeCollector struct{ m *Metrics }

func (c *probeCollector) Describe(out chan<- *prometheus.Desc) {
	out <- descAttached
	out <- descEvents
	out <- descLost
}

func (c *probeCollector) Collect(out chan<- prometheus.Metric) {
	probes := c.m.probes.Load()
	if probes == nil {
		return
	}
	for _, s := range (*probes).Status() {
		attached := 0.0
		if s.Attached {
			attached = 1
		}
		out <- prometheus.MustNewConstMetric(descAttached, prometheus.GaugeValue, attached, s.Name)
	}
	n, err := (*probes).Counters()
	if err != nil {
		out <- prometheus.NewInvalidMetric(descEvents, err)
		return
	}
	for _, e := range n.Events() {
		out <- prometheus.MustNewConstMetric(descEvents, prometheus.CounterValue, float64(e.Count), e.Event)
	}
	for _, e := range n.Lost() {
		out <- prometheus.MustNewConstMetric(descLost, prometheus.CounterValue, float64(e.Count), e.Event)
	}
}
