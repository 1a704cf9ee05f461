package watermark

import (
	"slices"
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/policy/image"
)

const (
	// PollInterval is how often a filesystem is read at least where the kernel cannot raise
	// its threshold, and pollSoonest the least time between two such readings.
	PollInterval = 10 * time.Second
	pollSoonest  = 500 * time.Millisecond
)

// polls says when the filesystems are read whose threshold the kernel does not raise.
type polls struct {
	now func() time.Time
	at  time.Time // zero: nothing is polled
}

// due reports, once, whether it is time.
func (p *polls) due() bool {
	due := clock.Came(p.at, p.now())
	if due {
		p.at = time.Time{}
	}
	return due
}

// begin is for a poll that begins now.
func (p *polls) begin() { p.at = p.now().Add(PollInterval) }

// plan plans the next reading of a filesystem, if it is polled.
func (p *polls) plan(f *Filesystem) {
	if f.polled() {
		now := p.now()
		p.at = clock.Earliest(p.at, now.Add(f.pace.next(now, f.Disk, f.Thresholds)))
	}
}

// review ends the polls if no filesystem needs them.
func (p *polls) review(list []*Filesystem) {
	if !slices.ContainsFunc(list, (*Filesystem).polled) {
		p.at = time.Time{}
	}
}

// pace spaces the readings of a filesystem that the kernel does not watch: the next one
// comes when half the way to the threshold would be gone at the speed of late. The zero
// value knows no speed yet.
type pace struct {
	at            time.Time // of the latest reading that counts
	disk          image.Disk
	bytes, inodes float64 // taken in a second: the latest, or half of what it was before
}

// next takes in a reading and says when to read again.
func (p *pace) next(now time.Time, d image.Disk, thresholds image.Policy) time.Duration {
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
		until(d.CapacityBytes, d.AvailableBytes, thresholds.HighPercent, p.bytes),
		until(d.Inodes, d.InodesAvailable, thresholds.InodesHighPercent, p.inodes),
	)
	return max(wait/2, pollSoonest)
}

// speed is how much was taken in a second.
func speed(before, now uint64, passed time.Duration) float64 {
	return float64(before-min(now, before)) / passed.Seconds()
}

// until is how long the way to the threshold takes, 2 × PollInterval at most. Beyond the
// threshold nothing hurries.
func until(capacity, available uint64, highPercent int, speed float64) time.Duration {
	const most = 2 * PollInterval
	raise, on := image.RaiseAt(capacity, highPercent)
	if !on || available <= raise || speed <= 0 {
		return most
	}
	return time.Duration(min(float64(available-raise)/speed, most.Seconds()) * float64(time.Second))
}
