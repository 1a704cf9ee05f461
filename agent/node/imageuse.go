package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var descUnused = desc("image_unused_seconds", "Images by how long nobody has used them, as far as was seen at the latest look; 0 for those in use other than by dead containers. One whose last use is not known counts from when ebb first saw it.")

// unusedBuckets bound the histogram of images: in use, an hour, a quarter of a day,
// a day, three, a week, a month, three.
var unusedBuckets = []time.Duration{0, time.Hour, 6 * time.Hour, 24 * time.Hour, 3 * 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 90 * 24 * time.Hour}

// imageUse is what the loop knew at its latest look of when images were last used.
type imageUse struct {
	now   func() time.Time // ebb's clock
	inUse uint64
	last  []time.Time // of the others
}

// exportUse shows it to those who scrape.
func (a *Agent) exportUse() {
	u := &imageUse{now: a.clock.now}
	for id, i := range a.known {
		switch r := a.rec.Images[id]; {
		case i.InUse:
			u.inUse++
		case r.LastUsed.IsZero():
			u.last = append(u.last, r.Observed)
		default:
			u.last = append(u.last, r.LastUsed)
		}
	}
	a.metrics.use.Store(u)
}

// useCollector counts images when it is scraped: they grow older without the loop.
type useCollector struct{ m *Metrics }

func (c *useCollector) Describe(out chan<- *prometheus.Desc) { out <- descUnused }

func (c *useCollector) Collect(out chan<- prometheus.Metric) {
	u := c.m.use.Load()
	if u == nil {
		return // nothing was looked at yet
	}
	counts, sum, now := make(map[float64]uint64, len(unusedBuckets)), 0.0, u.now()
	for _, most := range unusedBuckets {
		counts[most.Seconds()] = u.inUse
	}
	for _, at := range u.last {
		// What has only just ended is not in use.
		age := max(now.Sub(at), 1)
		sum += age.Seconds()
		for _, most := range unusedBuckets {
			if age <= most {
				counts[most.Seconds()]++
			}
		}
	}
	out <- prometheus.MustNewConstHistogram(descUnused, u.inUse+uint64(len(u.last)), sum, counts)
}
