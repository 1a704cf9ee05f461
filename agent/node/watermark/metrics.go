package watermark

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/metric"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/policy/image"
)

var (
	descFilesystem = metric.Desc("filesystem_info", "1 for each watched directory, with its filesystem as label. A filesystem has the name of its first directory: images (unpacked layers), content (blobs), containers (writable layers), kubelet (its root directory), logs (of pods). A directory of a project with a quota (ext4, xfs) counts as a filesystem of its own.", "filesystem", "directory", "device", "type")
	descCapacity   = metric.Desc("filesystem_capacity_bytes", "Size of the filesystem in bytes.", "filesystem")
	descAvailable  = metric.Desc("filesystem_available_bytes", "Bytes that unprivileged writers can still use.", "filesystem")
	descUsed       = metric.Desc("filesystem_used_ratio", "Used share from 0 to 1, in whole percents as the kubelet counts them: 1 - floor(available*100/capacity)/100.", "filesystem", "resource")
	descReadable   = metric.Desc("filesystem_readable", "1 if the filesystem could be read for this scrape. At 0 its figures are missing.", "filesystem")
	descThreshold  = metric.Desc("filesystem_threshold_ratio", "Thresholds, from 0 to 1. At high the agent acts. On a filesystem with images, reclaim ends at low.", "filesystem", "resource", "threshold")
	descPolled     = metric.Desc("filesystem_polled", "1 while the agent reads the disk by timer to see the high threshold, 0 while the kernel watches it.", "filesystem")
	descToFull     = metric.Desc("filesystem_time_to_full_seconds", "Seconds until unprivileged writers have no space left, if they continue as in the last minutes and nothing is removed. +Inf while the filesystem does not fill. Deletions by writers count. Space that reclaim frees does not count. It is measured from the agent's own readings, which are minutes apart, to the scrape. It is known ten seconds after the first reading.", "filesystem", "resource")
)

// Metrics are the metrics of the watched filesystems. A scrape reads the disks by itself: its
// figures are exact without polling, and it does not wake the loop.
type Metrics struct {
	crossings  *prometheus.CounterVec
	polls      prometheus.Counter
	shortfalls prometheus.Counter
	unsettled  prometheus.Counter

	watched atomic.Pointer[watched] // nil: nothing was found yet
}

// NewMetrics registers the metrics.
func NewMetrics(f program.Factory) *Metrics {
	m := &Metrics{
		crossings:  f.Counters("filesystem_threshold_crossings_total", "Crossings of a high threshold that the kernel reported. A filesystem has its first name as label.", "filesystem"),
		polls:      f.Counter("filesystem_polls_total", "Times the agent read the disk by timer, because the kernel cannot watch it."),
		shortfalls: f.Counter("image_removal_shortfalls_total", "Removals that freed less than computed, although the figure of the disk is exact."),
		unsettled:  f.Counter("filesystem_settle_timeouts_total", "Times the filesystem's figure could not be made exact in time, before a decision or after a removal. Reclaim then uses the computed figure."),
	}
	for _, name := range Names {
		m.crossings.WithLabelValues(name)
	}
	f.Registry.MustRegister(m)
	return m
}

// Watches reports whether a filesystem of that type is watched. Any goroutine may call it.
func (m *Metrics) Watches(fsType string) bool {
	w := m.watched.Load()
	return w != nil && slices.ContainsFunc(w.list, func(f series) bool { return f.kind == fsType })
}

// watched has the loop's filesystems for scrapes.
type watched struct {
	disk Disk
	boot func() time.Duration // CLOCK_BOOTTIME
	list []series
}

// series is what is exported of one filesystem, under the first of its names.
type series struct {
	names        []string
	path         string
	device, kind string
	thresholds   image.Policy
	images       bool
	kernel       bool
	filling      *fillRate
}

// publish passes the filesystems to scrapes.
func (w *Watcher) publish() {
	p := &watched{disk: w.o.Disk, boot: w.o.Boot}
	for _, f := range w.survey.filesystems {
		p.list = append(p.list, series{
			names: f.Names, path: f.Path, kind: f.Type, device: f.Device(),
			thresholds: f.Thresholds, images: f.HoldsImages(), kernel: f.Kernel, filling: &f.filling,
		})
	}
	w.o.Metrics.watched.Store(p)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descFilesystem, descReadable, descCapacity, descAvailable, descUsed, descThreshold, descPolled, descToFull,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	w := m.watched.Load()
	if w == nil {
		return // no figure is better than a false one
	}
	for _, f := range w.list {
		at := w.boot()
		d, _, err := w.disk.Stat(f.path)
		f.known(err == nil, out)
		if err == nil {
			f.read(d, out)
			f.filling.collect(f.names[0], at, d, out)
		}
	}
}

// known exports the series that need no reading. A filesystem that cannot be read must not hide the
// figures of the others, nor its own thresholds.
func (f series) known(readable bool, out chan<- prometheus.Metric) {
	gauge := gaugesOf(f.names[0], out)
	for _, directory := range f.names {
		gauge(descFilesystem, 1, directory, f.device, f.kind)
	}
	gauge(descReadable, program.Bool(readable))
	gauge(descThreshold, ratio(f.thresholds.HighPercent), "bytes", "high")
	gauge(descThreshold, ratio(f.thresholds.InodesHighPercent), "inodes", "high")
	if f.images {
		gauge(descThreshold, ratio(f.thresholds.LowPercent), "bytes", "low")
		gauge(descThreshold, ratio(f.thresholds.InodesLowPercent), "inodes", "low")
	}
	gauge(descPolled, program.Bool(!f.kernel))
}

func (f series) read(d image.Disk, out chan<- prometheus.Metric) {
	gauge := gaugesOf(f.names[0], out)
	gauge(descCapacity, float64(d.CapacityBytes))
	gauge(descAvailable, float64(d.AvailableBytes))
	gauge(descUsed, ratio(d.UsedPercent()), "bytes")
	gauge(descUsed, ratio(d.InodesUsedPercent()), "inodes")
}

// ratio converts percent to a share from 0 to 1. Equal percents give equal ratios, so that both can
// be compared.
func ratio[N int | uint64](percent N) float64 { return float64(percent) / 100 }

func gaugesOf(name string, out chan<- prometheus.Metric) func(d *prometheus.Desc, v float64, labels ...string) {
	return func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{name}, labels...)...)
	}
}
