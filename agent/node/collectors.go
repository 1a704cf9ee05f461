package node

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/policy/image"
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("ebb", "node", name), help, labels, nil)
}

var (
	descFilesystem = desc("filesystem_info", "1, labelled with the filesystem that a directory is on. Those with one device are one filesystem; of these, one is no alias.", "filesystem", "device", "type", "alias")
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
	boot func() time.Duration // CLOCK_BOOTTIME
	list []watchedFilesystem
}

type watchedFilesystem struct {
	names        []string
	path         string
	device, kind string
	lines        image.Policy
	images       bool
	kernel       bool
	filling      *fillBook
}

// publish shows the filesystems to the collector. Their figures are read at
// scrape time, so they are exact without anybody polling.
func (a *Agent) publish() {
	w := &watched{disk: a.disk, boot: a.boot}
	for _, f := range a.filesystems {
		w.list = append(w.list, watchedFilesystem{
			names: f.names, path: f.path, kind: f.Type, device: f.device(),
			lines: f.lines, images: f.holdsImages(), kernel: f.line.kernel, filling: &f.filling,
		})
	}
	a.metrics.filesystems.Store(w)
}

// filesystemCollector reads each filesystem when it is scraped. One that has
// several names has as many series.
type filesystemCollector struct{ m *Metrics }

func (c *filesystemCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descFilesystem, descCapacity, descAvailable, descUsed, descInodes, descInodesAv, descLine, descSource, descToFull,
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
		at := w.boot()
		d, _, err := w.disk.Stat(f.path)
		if err != nil {
			out <- prometheus.NewInvalidMetric(descCapacity, err)
			continue
		}
		f.filling.add(at, d)
		for i, name := range f.names {
			f.collect(name, i > 0, d, out)
			f.filling.collect(name, d, out)
		}
	}
}

func (f watchedFilesystem) collect(name string, alias bool, d image.Disk, out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{name}, labels...)...)
	}
	gauge(descFilesystem, 1, f.device, f.kind, strconv.FormatBool(alias))
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
