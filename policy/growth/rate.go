package growth

import (
	"math"
	"time"
)

const (
	// Window is the time constant of the mean: growth this long ago weighs 1/e. The burst of
	// an image pull ends within it, a runaway log does not.
	Window = 5 * time.Minute

	// MinSpan is how long readings must cover before a rate is known. With less, a burst of
	// one second would become the rate of an hour.
	MinSpan = 10 * time.Second

	// Never is the time to full from which a filesystem counts as not filling. Nobody plans
	// further ahead, and the remainder of an old burst only fades away.
	Never = 365 * 24 * time.Hour
)

// Reading is one exact reading of one resource of a filesystem: bytes or inodes.
type Reading struct {
	At        time.Duration // on a clock that is never set, such as CLOCK_BOOTTIME
	Capacity  uint64
	Available uint64 // to unprivileged writers
	Reclaimed uint64 // what ebb has freed there so far; only differences matter
}

// Rate is how fast one resource fills. The zero value is ready for use.
type Rate struct {
	begun bool
	first time.Duration // time of the first reading
	last  Reading
	// sum is the integral of the growth, weighted with exp(-age/Window)/Window. The
	// weights themselves sum up to 1-exp(-span/Window).
	sum float64
}

// Add adds a reading. It ignores one that is not later than the last. If the capacity changed
// or Reclaimed decreased, the rate starts over.
func (r *Rate) Add(x Reading) {
	passed := x.At - r.last.At
	switch {
	case r.begun && passed <= 0:
		return
	case !r.begun, x.Capacity != r.last.Capacity, x.Reclaimed < r.last.Reclaimed:
		*r = Rate{begun: true, first: x.At, last: x}
		return
	}
	// Differences of unsigned numbers are exact whatever their sign.
	grown := float64(int64(r.last.Available-x.Available)) + float64(x.Reclaimed-r.last.Reclaimed)
	weight := weightOf(passed)
	r.sum += weight * (grown/passed.Seconds() - r.sum)
	r.last = x
}

// weightOf returns the share of the mean that its most recent d contributes.
func weightOf(d time.Duration) float64 { return -math.Expm1(-d.Seconds() / Window.Seconds()) }

// PerSecond returns how many bytes (or inodes) writers add per second; negative if they empty
// the resource. It is known once readings cover MinSpan.
func (r *Rate) PerSecond() (rate float64, known bool) {
	span := r.last.At - r.first
	if !r.begun || span < MinSpan {
		return 0, false
	}
	return r.sum / weightOf(span), true
}

// SecondsToFull returns after how many seconds nothing is available if writers continue at
// this rate and nothing is removed; +Inf if the resource does not fill. For a full resource
// it is 0, known from the first reading.
func (r *Rate) SecondsToFull() (seconds float64, known bool) {
	if r.begun && r.last.Available == 0 {
		return 0, true
	}
	rate, known := r.PerSecond()
	switch {
	case !known:
		return 0, false
	case rate <= 0:
		return math.Inf(1), true
	}
	seconds = float64(r.last.Available) / rate
	if seconds > Never.Seconds() {
		return math.Inf(1), true
	}
	return seconds, true
}
