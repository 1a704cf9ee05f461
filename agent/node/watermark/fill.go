package watermark

import (
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/policy/growth"
	"github.com/ebb-agent/ebb/policy/image"
)

// fillRate is how fast a filesystem fills. The loop adds the readings that it makes anyway: nothing
// wakes up for it. A scrape adds its reading to a copy, so that the number of scrapes does not
// change the answer.
type fillRate struct {
	mu                              sync.Mutex
	reclaimedBytes, reclaimedInodes uint64
	bytes, inodes                   growth.Rate
}

// reclaimed notes what a removal has freed. If the disk is read during a removal, the growth comes
// out too small, and as much too large the next time.
func (r *fillRate) reclaimed(bytes, inodes uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reclaimedBytes += bytes
	r.reclaimedInodes += inodes
}

// add takes in a reading that was made at a time of CLOCK_BOOTTIME.
func (r *fillRate) add(at time.Duration, d image.Disk) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes, r.inodes = r.with(at, d)
}

// with returns the rates with one more reading.
func (r *fillRate) with(at time.Duration, d image.Disk) (bytes, inodes growth.Rate) {
	bytes, inodes = r.bytes, r.inodes
	bytes.Add(growth.Reading{At: at, Capacity: d.CapacityBytes, Available: d.AvailableBytes, Reclaimed: r.reclaimedBytes})
	inodes.Add(growth.Reading{At: at, Capacity: d.Inodes, Available: d.InodesAvailable, Reclaimed: r.reclaimedInodes})
	return bytes, inodes
}

// FullIn returns in how many seconds the bytes and the inodes are used up at the pace of the last
// minutes. They are nil if the filesystem does not fill, or if that is not known. boot is
// CLOCK_BOOTTIME now.
func (f *Filesystem) FullIn(boot time.Duration) (bytes, inodes *float64) {
	r := &f.filling
	r.mu.Lock()
	b, i := r.with(boot, f.Disk)
	r.mu.Unlock()
	if s, known := b.SecondsToFull(); known && !math.IsInf(s, 0) {
		bytes = &s
	}
	if s, known := i.SecondsToFull(); known && !math.IsInf(s, 0) && f.Inodes > 0 {
		inodes = &s
	}
	return bytes, inodes
}

// collect exports the time to full, with the scrape's own reading, under one name of the
// filesystem.
func (r *fillRate) collect(name string, at time.Duration, d image.Disk, out chan<- prometheus.Metric) {
	r.mu.Lock()
	bytes, inodes := r.with(at, d)
	r.mu.Unlock()
	if s, known := bytes.SecondsToFull(); known {
		out <- prometheus.MustNewConstMetric(descToFull, prometheus.GaugeValue, s, name, "bytes")
	}
	// A filesystem that does not count inodes (btrfs) cannot run out of them.
	if s, known := inodes.SecondsToFull(); known && d.Inodes > 0 {
		out <- prometheus.MustNewConstMetric(descToFull, prometheus.GaugeValue, s, name, "inodes")
	}
}
