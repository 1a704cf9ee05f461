package stats

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/metric"
)

var descLastUse = metric.Desc("images_by_last_use", "Images by the time since their last use, as of the latest inventory. Each image counts once: in_use (by other than dead containers), within 1h, 6h, 1d, 7d, 30d, or older. If the last use of an image is not known, the time counts from when ebb first saw it.", "age")

// ages are the values of the label, besides in_use and older.
var ages = []struct {
	name string
	most time.Duration
}{{"1h", time.Hour}, {"6h", 6 * time.Hour}, {"1d", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}, {"30d", 30 * 24 * time.Hour}}

// Unused counts images by the time since their last use. Images grow older without the loop, so
// they are counted when they are scraped.
type Unused struct {
	uses atomic.Pointer[uses] // nil: nothing was looked at yet
}

// uses is what the loop knew at its latest look.
type uses struct {
	now   func() time.Time // ebb's clock
	inUse int
	last  []time.Time // last uses of the other images
}

// NewUnused registers the metric.
func NewUnused(r prometheus.Registerer) *Unused {
	u := &Unused{}
	r.MustRegister(u)
	return u
}

// Looked takes in how many images are in use, and when the others were last used.
func (u *Unused) Looked(now func() time.Time, inUse int, last []time.Time) {
	u.uses.Store(&uses{now: now, inUse: inUse, last: last})
}

// Describe implements prometheus.Collector.
func (u *Unused) Describe(out chan<- *prometheus.Desc) { out <- descLastUse }

// Collect implements prometheus.Collector.
func (u *Unused) Collect(out chan<- prometheus.Metric) {
	seen := u.uses.Load()
	if seen == nil {
		return // nothing was looked at yet
	}
	counts, older, now := make([]int, len(ages)), 0, seen.now()
	for _, at := range seen.last {
		if i := ageOf(now.Sub(at)); i < len(ages) {
			counts[i]++
		} else {
			older++
		}
	}
	metric.Gauge(out, descLastUse, float64(seen.inUse), "in_use")
	for i, age := range ages {
		metric.Gauge(out, descLastUse, float64(counts[i]), age.name)
	}
	metric.Gauge(out, descLastUse, float64(older), "older")
}

// ageOf returns the index of the first of ages that d does not exceed; len(ages) if there is none.
func ageOf(d time.Duration) int {
	for i, age := range ages {
		if d <= age.most {
			return i
		}
	}
	return len(ages)
}
