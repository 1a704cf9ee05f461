package node

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/policy/growth"
	"github.com/ebb-agent/ebb/policy/image"
)

var descToFull = desc("filesystem_time_to_full_seconds", "After how long unprivileged writers have nothing left if they go on as in the last minutes and nothing is removed; +Inf while it does not fill. What writers delete themselves counts, what reclaim frees does not. Measured from scrape to scrape: known with the second one, ten seconds later.", "filesystem", "resource")

// fillBook is how fast a filesystem fills. It is fed with what scrapes read anyway:
// nobody wakes up for it. The loop says what it has freed there.
type fillBook struct {
	mu                              sync.Mutex
	reclaimedBytes, reclaimedInodes uint64
	bytes, inodes                   growth.Rate
}

// reclaimed notes what a removal has freed. On a disk that is read in the middle of a
// removal the growth comes out too small, and as much too large the next time.
func (b *fillBook) reclaimed(bytes, inodes uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reclaimedBytes += bytes
	b.reclaimedInodes += inodes
}

// add takes in a reading that was made at a time of CLOCK_BOOTTIME.
func (b *fillBook) add(at time.Duration, d image.Disk) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes.Add(growth.Reading{At: at, Capacity: d.CapacityBytes, Available: d.AvailableBytes, Reclaimed: b.reclaimedBytes})
	b.inodes.Add(growth.Reading{At: at, Capacity: d.Inodes, Available: d.InodesAvailable, Reclaimed: b.reclaimedInodes})
}

// collect shows it for one name of the filesystem.
func (b *fillBook) collect(name string, d image.Disk, out chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s, known := b.bytes.SecondsToFull(); known {
		out <- prometheus.MustNewConstMetric(descToFull, prometheus.GaugeValue, s, name, "bytes")
	}
	// A filesystem that does not count inodes (btrfs) cannot run out of them.
	if s, known := b.inodes.SecondsToFull(); known && d.Inodes > 0 {
		out <- prometheus.MustNewConstMetric(descToFull, prometheus.GaugeValue, s, name, "inodes")
	}
}
