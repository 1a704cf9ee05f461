package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/policy/image"
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("ebb", "node", name), help, labels, nil)
}

var (
	descFilesystem = desc("filesystem_info", "1, labelled with the filesystem that a directory is on. Those with one device are one filesystem.", "filesystem", "device", "type")
	descCapacity   = desc("filesystem_capacity_bytes", "Size of the filesystem: images (unpacked layers), content (blobs), containers (writable layers), kubelet (its root directory), logs (of pods).", "filesystem")
	descAvailable  = desc("filesystem_available_bytes", "What unprivileged writers can still get.", "filesystem")
	descUsed       = desc("filesystem_used_percent", "Used space as the kubelet counts it: 100 - floor(available*100/capacity).", "filesystem", "resource")
	descInodes     = desc("filesystem_inodes", "Inodes of the filesystem; 0 where it does not count them.", "filesystem")
	descInodesAv   = desc("filesystem_inodes_available", "Inodes still free.", "filesystem")
	descLine       = desc("filesystem_line_percent", "The lines: at high the agent acts; reclaim, where there are images, ends at low.", "filesystem", "resource", "line")
	descSource     = desc("line_source", "1 for what watches the line: the kernel, or polling.", "filesystem", "source")
)

// watched are the filesystems as the loop has them, for those who scrape.
type watched struct {
	disk Disk
	list []watchedFilesystem
}

type watchedFilesystem struct {
	names        []string
	path         string
	device, kind string
	lines        image.Policy
	images       bool
	kernel       bool
}

// publish shows the filesystems to the collector. Their figures are read at
// scrape time, so they are exact without anybody polling.
func (a *Agent) publish() {
	w := &watched{disk: a.disk}
	for _, f := range a.filesystems {
		w.list = append(w.list, watchedFilesystem{
			names: f.names, path: f.path, kind: f.Type, device: f.device(),
			lines: f.lines, images: f.holdsImages(), kernel: f.line.kernel,
		})
	}
	a.metrics.filesystems.Store(w)
}

// filesystemCollector reads each filesystem when it is scraped. One that has
// several names has as many series.
type filesystemCollector struct{ m *Metrics }

func (c *filesystemCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descFilesystem, descCapacity, descAvailable, descUsed, descInodes, descInodesAv, descLine, descSource,
	} {
		out <- d
	}
}

func (c *filesystemCollector) Collect(out chan<- prometheus.Metric) {
	w := c.m.filesystems.Load()
	if w == nil {
		return // not found yet: no figure is better than a false one
	}
	for _, f := range w.list {
		d, _, err := w.disk.Stat(f.path)
		if err != nil {
			out <- prometheus.NewInvalidMetric(descCapacity, err)
			continue
		}
		for _, name := range f.names {
			f.collect(name, d, out)
		}
	}
}

func (f watchedFilesystem) collect(name string, d image.Disk, out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{name}, labels...)...)
	}
	gauge(descFilesystem, 1, f.device, f.kind)
	gauge(descLine, float64(f.lines.HighPercent), "bytes", "high")
	gauge(descLine, float64(f.lines.InodesHighPercent), "inodes", "high")
	if f.images {
		gauge(descLine, float64(f.lines.LowPercent), "bytes", "low")
		gauge(descLine, float64(f.lines.InodesLowPercent), "inodes", "low")
	}
	kernel, poll := 0.0, 1.0
	if f.kernel {
		kernel, poll = 1, 0
	}
	gauge(descSource, kernel, "kernel")
	gauge(descSource, poll, "poll")
	gauge(descCapacity, float64(d.CapacityBytes))
	gauge(descAvailable, float64(d.AvailableBytes))
	gauge(descUsed, float64(d.UsedPercent()), "bytes")
	gauge(descUsed, float64(d.InodesUsedPercent()), "inodes")
	gauge(descInodes, float64(d.Inodes))
	gauge(descInodesAv, float64(d.InodesAvailable))
}

var (
	descAttached = desc("probe_attached", "1 for each kernel program that is attached. usage_reserve is only while an ext4 filesystem is near its line, where the kernel has large folios; elsewhere it is always, and usage_dirty never.", "program")
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
