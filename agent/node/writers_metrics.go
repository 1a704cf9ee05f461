package node

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/bpf"
)

var writerLabels = []string{"namespace", "pod", "container"}

var (
	descGrowth = desc("container_growth_bytes", "By how much a container made the watched filesystems fuller since it started; less than 0 if it deleted what others wrote. Only the writers.top containers that grew most; one that the kubelet did not make has no pod.", writerLabels...)
	descGrown  = desc("container_grown_bytes_total", "What the same containers took, whether or not they gave it back.", writerLabels...)
	descShrunk = desc("container_shrunk_bytes_total", "What the same containers gave back.", writerLabels...)
)

// writersCollector reads the kernel's counts when it is scraped. Its series
// are as many as the configuration says; they come and go with the containers
// that grow most.
type writersCollector struct{ m *Metrics }

func (c *writersCollector) Describe(out chan<- *prometheus.Desc) {
	out <- descGrowth
	out <- descGrown
	out <- descShrunk
}

func (c *writersCollector) Collect(out chan<- prometheus.Metric) {
	w := c.m.writers.Load()
	if w == nil {
		return
	}
	list, err := w.read()
	if errors.Is(err, bpf.ErrNotAttached) {
		return // probe_attached says so
	}
	if !countsReadable("writers", err, out) {
		return
	}
	for _, one := range topByName(list, w.top) {
		labels := []string{one.Namespace, one.Pod, one.Container}
		out <- prometheus.MustNewConstMetric(descGrowth, prometheus.GaugeValue, float64(one.NetBytes), labels...)
		out <- prometheus.MustNewConstMetric(descGrown, prometheus.CounterValue, float64(one.GrownBytes), labels...)
		out <- prometheus.MustNewConstMetric(descShrunk, prometheus.CounterValue, float64(one.ShrunkBytes), labels...)
	}
}

// topByName sums what bears the same names, such as a container and the one
// that crashed before it, and returns the n that grew most. What is no
// container has no names, and no series.
func topByName(list []Writer, n int) []Writer {
	sums := map[[3]string]*Writer{}
	for _, one := range list {
		if one.ID == "" {
			continue
		}
		key := [3]string{label(one.Namespace), label(one.Pod), label(one.Container)}
		sum := sums[key]
		if sum == nil {
			sum = &Writer{Namespace: key[0], Pod: key[1], Container: key[2]}
			sums[key] = sum
		}
		sum.GrownBytes += one.GrownBytes
		sum.ShrunkBytes += one.ShrunkBytes
		sum.NetBytes += one.NetBytes
	}
	top := make([]Writer, 0, len(sums))
	for _, sum := range sums {
		top = append(top, *sum)
	}
	slices.SortFunc(top, func(a, b Writer) int {
		return cmp.Or(cmp.Compare(b.NetBytes, a.NetBytes), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
	})
	return top[:min(n, len(top))]
}

// maxLabel is the length of the longest name Kubernetes allows.
const maxLabel = 253

// label makes a name from the node fit to be a label. The names are the
// kubelet's, but everybody who can talk to the runtime can make some up.
func label(name string) string {
	if len(name) > maxLabel {
		name = name[:maxLabel]
	}
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(name, "?"))
}
