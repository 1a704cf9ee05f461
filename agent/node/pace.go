package node

import (
	"time"

	"github.com/ebb-agent/ebb/policy/image"
)

const (
	// pollInterval is how often a filesystem is read at least where the kernel cannot
	// raise its line, and pollSoonest the least time between two such readings.
	pollInterval = 10 * time.Second
	pollSoonest  = 500 * time.Millisecond
)

// pace spaces the readings of a filesystem that the kernel does not watch: the next one
// comes when half the way to the line would be gone at the speed of late. The zero
// value knows no speed yet.
type pace struct {
	at            time.Time // of the latest reading that counts
	disk          image.Disk
	bytes, inodes float64 // taken in a second: the latest, or half of what it was before
}

// next takes in a reading and says when to read again.
func (p *pace) next(now time.Time, d image.Disk, lines image.Policy) time.Duration {
	passed := now.Sub(p.at)
	if p.at.IsZero() {
		p.at, p.disk = now, d
		return pollSoonest
	}
	if passed >= pollSoonest {
		p.bytes = max(speed(p.disk.AvailableBytes, d.AvailableBytes, passed), p.bytes/2)
		p.inodes = max(speed(p.disk.InodesAvailable, d.InodesAvailable, passed), p.inodes/2)
		p.at, p.disk = now, d
	}
	wait := min(
		until(d.CapacityBytes, d.AvailableBytes, lines.HighPercent, p.bytes),
		until(d.Inodes, d.InodesAvailable, lines.InodesHighPercent, p.inodes),
	)
	return max(wait/2, pollSoonest)
}

// speed is how much was taken in a second.
func speed(before, now uint64, passed time.Duration) float64 {
	return float64(before-min(now, before)) / passed.Seconds()
}

// until is how long the way to the line takes, 2 × pollInterval at most. Beyond the
// line nothing hurries.
func until(capacity, available uint64, highPercent int, speed float64) time.Duration {
	const most = 2 * pollInterval
	raise, on := image.RaiseAt(capacity, highPercent)
	if !on || available <= raise || speed <= 0 {
		return most
	}
	return time.Duration(min(float64(available-raise)/speed, most.Seconds()) * float64(time.Second))
}
