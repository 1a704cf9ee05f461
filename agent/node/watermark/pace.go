package watermark

import (
	"slices"
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/policy/image"
)

const (
	// PollInterval is the most time between two readings of a filesystem where the kernel cannot
	// raise its threshold, and pollSoonest the least.
	PollInterval = 10 * time.Second
	pollSoonest  = 500 * time.Millisecond
	// holdInterval is the time between two readings of a filesystem on hold: the kernel raises no event for
	// space that others free.
	holdInterval = time.Second
)

// polls plans the readings of the filesystems that the kernel does not watch.
type polls struct {
	now func() time.Time
	at  time.Time // zero: nothing is polled
}

// due reports whether a poll is due, once for each deadline.
func (p *polls) due() bool {
	due := clock.Came(p.at, p.now())
	if due {
		p.at = time.Time{}
	}
	return due
}

// begin sets the deadline of the next poll when one begins.
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

// pace spaces the readings of a filesystem that the kernel does not watch: the next one comes when
// half of the space up to the threshold would be used at the recent speed. The zero value knows no
// speed yet.
type pace struct {
	at            time.Time // of the latest reading that counts
	disk          image.Disk
	bytes, inodes float64 // used in a second: the latest speed, or half the one before if that is more
}

// next takes in a reading and returns how long to wait for the next one.
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

// speed returns how much was used in a second.
func speed(before, now uint64, passed time.Duration) float64 {
	return float64(before-min(now, before)) / passed.Seconds()
}

// until returns how long it takes to reach the threshold, at most 2 × PollInterval. Beyond the
// threshold it returns the most.
func until(capacity, available uint64, highPercent int, speed float64) time.Duration {
	const most = 2 * PollInterval
	raise, on := image.RaiseAt(capacity, highPercent)
	if !on || available <= raise || speed <= 0 {
		return most
	}
	return time.Duration(min(float64(available-raise)/speed, most.Seconds()) * float64(time.Second))
}
