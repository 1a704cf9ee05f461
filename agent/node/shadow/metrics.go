package shadow

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/policy/image"
)

// Values of the label by: who removed the images.
const (
	byEbb    = "ebb"    // would have removed them
	byOthers = "others" // have removed them
)

type metrics struct {
	images, bytes, needed, pulled, seconds *prometheus.CounterVec
}

func newMetrics(r *prometheus.Registry) *metrics {
	f := program.Factory{Registry: r, Subsystem: "node"}
	m := &metrics{
		images:  f.Counters("observed_images_removed_total", "In mode observe: images that ebb would have removed, and images that others removed.", "by"),
		bytes:   f.Counters("observed_images_freed_bytes_total", "In mode observe: bytes that those images would have freed, or did, as computed.", "by"),
		needed:  f.Counters("observed_images_repulled_total", "In mode observe: those images that were needed again within a day.", "by"),
		pulled:  f.Counters("observed_images_repulled_bytes_total", "In mode observe: bytes that pulls of those images would take, or took, at most.", "by"),
		seconds: f.Counters("observed_above_threshold_seconds_total", "In mode observe: seconds for which the disk would have been above its high threshold with ebb, and for which it was.", "by"),
	}
	for _, by := range []string{byEbb, byOthers} {
		for _, c := range []*prometheus.CounterVec{m.images, m.bytes, m.needed, m.pulled, m.seconds} {
			c.WithLabelValues(by)
		}
	}
	return m
}

// column is one of the two tallies, in the records and in the metrics.
type column struct {
	*state.Tally
	*metrics
	by string
}

func (s *Shadow) ebb() column    { return column{&s.sum.Ebb, s.metrics, byEbb} }
func (s *Shadow) others() column { return column{&s.sum.Others, s.metrics, byOthers} }

func (c column) removed(freed image.Size) {
	c.Images++
	c.Bytes, c.Inodes = c.Bytes+freed.Bytes, c.Inodes+freed.Inodes
	c.images.WithLabelValues(c.by).Inc()
	c.bytes.WithLabelValues(c.by).Add(float64(freed.Bytes))
}

func (c column) again(pull uint64) {
	c.Again++
	c.PullBytes += pull
	c.needed.WithLabelValues(c.by).Inc()
	c.pulled.WithLabelValues(c.by).Add(float64(pull))
}

func (c column) above(passed time.Duration) {
	c.Above += passed
	c.seconds.WithLabelValues(c.by).Add(passed.Seconds())
}
