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
	descFilesystem = desc("filesystem_info", "1, labelled with the filesystem that a directory is on. Those with one device are one filesystem, of which one is no alias; what a project with a quota (ext4, xfs) limits is one of its own.", "filesystem", "device", "type", "alias")
	descCapacity   = desc("filesystem_capacity_bytes", "Size of the filesystem: images (unpacked layers), content (blobs), containers (writable layers), kubelet (its root directory), logs (of pods).", "filesystem")
	descAvailable  = desc("filesystem_available_bytes", "What unprivileged writers can still get.", "filesystem")
	descUsed       = desc("filesystem_used_percent", "Used space as the kubelet counts it: 100 - floor(available*100/capacity).", "filesystem", "resource")
	descInodes     = desc("filesystem_inodes", "Inodes of the filesystem; 0 where it does not count them.", "filesystem")
	descInodesAv   = desc("filesystem_inodes_available", "Inodes still free.", "filesystem")
	descReadable   = desc("filesystem_readable", "1 if the filesystem could be read for this scrape; at 0 its figures are missing.", "filesystem")
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
		descFilesystem, descReadable, descCapacity, descAvailable, descUsed, descInodes, descInodesAv, descLine, descSource, descToFull,
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
		if err == nil {
			f.filling.add(at, d)
		}
		for i, name := range f.names {
			f.known(name, i > 0, err == nil, out)
			if err == nil {
				f.read(name, d, out)
				f.filling.collect(name, d, out)
			}
		}
	}
}

// known exports what needs no reading. One filesystem that cannot be read must not
// hide the others' figures, nor its own lines.
func (f watchedFilesystem) known(name string, alias, readable bool, out chan<- prometheus.Metric) {
	gauge := gaugesOf(name, out)
	gauge(descFilesystem, 1, f.device, f.kind, strconv.FormatBool(alias))
	gauge(descReadable, number(readable))
	gauge(descLine, float64(f.lines.HighPercent), "bytes", "high")
	gauge(descLine, float64(f.lines.InodesHighPercent), "inodes", "high")
	if f.images {
		gauge(descLine, float64(f.lines.LowPercent), "bytes", "low")
		gauge(descLine, float64(f.lines.InodesLowPercent), "inodes", "low")
	}
	gauge(descSource, number(f.kernel), "kernel")
	gauge(descSource, number(!f.kernel), "poll")
}

func (f watchedFilesystem) read(name string, d image.Disk, out chan<- prometheus.Metric) {
	gauge := gaugesOf(name, out)
	gauge(descCapacity, float64(d.CapacityBytes))
	gauge(descAvailable, float64(d.AvailableBytes))
	gauge(descUsed, float64(d.UsedPercent()), "bytes")
	gauge(descUsed, float64(d.InodesUsedPercent()), "inodes")
	gauge(descInodes, float64(d.Inodes))
	gauge(descInodesAv, float64(d.InodesAvailable))
}

func gaugesOf(name string, out chan<- prometheus.Metric) func(d *prometheus.Desc, v float64, labels ...string) {
	return func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{name}, labels...)...)
	}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
