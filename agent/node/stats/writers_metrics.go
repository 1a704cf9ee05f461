package stats

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/metric"
	"github.com/ebb-agent/ebb/bpf"
)

var writerLabels = []string{"namespace", "pod", "container"}

var (
	descGrowth = metric.Desc("container_growth_bytes", "Bytes by which a container made the watched filesystems fuller since it started. Negative if it deleted files of others. Only the writers.top containers that grew most. A container that the kubelet did not make has no pod.", writerLabels...)
	descGrown  = metric.Desc("container_grown_bytes_total", "Bytes that a container took on the watched filesystems, whether or not it gave them back. Only the writers.top containers that grew most.", writerLabels...)
	descShrunk = metric.Desc("container_shrunk_bytes_total", "Bytes that a container gave back on the watched filesystems. Only the writers.top containers that grew most.", writerLabels...)
)

// writersCollector reads the kernel's counts when it is scraped. The configuration sets the number
// of its series. They appear and disappear with the containers that grow most.
type writersCollector struct{ *Writers }

func (c writersCollector) Describe(out chan<- *prometheus.Desc) {
	out <- descGrowth
	out <- descGrown
	out <- descShrunk
}

func (c writersCollector) Collect(out chan<- prometheus.Metric) {
	if c.off != "" {
		return
	}
	list, err := c.read()
	if errors.Is(err, bpf.ErrNotAttached) {
		return // probe_degraded reports it
	}
	if !metric.Readable(out, "writers", err) {
		return
	}
	for _, one := range topByName(list, c.top) {
		labels := []string{one.Namespace, one.Pod, one.Container}
		metric.Gauge(out, descGrowth, float64(one.NetBytes), labels...)
		metric.Counter(out, descGrown, float64(one.GrownBytes), labels...)
		metric.Counter(out, descShrunk, float64(one.ShrunkBytes), labels...)
	}
}

// topByName sums writers with the same names, such as a container and its crashed predecessor, and
// returns the n that grew most. Writers that are no containers have no names, and no series.
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

// label makes a name from the node fit to be a label value. The names are the kubelet's, but every
// client of the runtime can invent some.
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
