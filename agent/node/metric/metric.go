// Package metric has helpers that the node's metrics share.
package metric

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/program"
)

// Desc describes a metric of the node agent.
func Desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("ebb", "node", name), help, labels, nil)
}

// Gauge sends one value.
func Gauge(out chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// Counter sends one count.
func Counter(out chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
}

// DescReadable describes the metric that Readable sends; one collector has to describe it.
var DescReadable = Desc("probe_counters_readable", "1 if the counts of the kernel programs could be read for this scrape: events, writers (who fills the disk), heat (reads of images). At 0 these figures are missing. Without a series nothing is counted.", "counters")

// Readable exports, and returns, whether counts could be read. So an error does not hide the other
// metrics.
func Readable(out chan<- prometheus.Metric, what string, err error) bool {
	Gauge(out, DescReadable, program.Bool(err == nil), what)
	return err == nil
}
