package growth

import (
	"math"
	"time"
)

const (
	// Window is the time constant of the mean: growth this long ago weighs 1/e.
	// Bursts of a pull are over within it, a runaway log is not.
	Window = 5 * time.Minute

	// MinSpan is how long readings must cover before a rate is known. Less would
	// make a burst of a second the rate of an hour.
	MinSpan = 10 * time.Second

	// Never is what counts as not filling: nobody plans further ahead, and what is
	// left of an old burst only fades away.
	Never = 365 * 24 * time.Hour
)

// Reading is one exact look at one resource of a filesystem, bytes or inodes.
type Reading struct {
	At        time.Duration // on a clock that is never set, such as CLOCK_BOOTTIME
	Capacity  uint64
	Available uint64 // to unprivileged writers
	Reclaimed uint64 // what ebb has freed there so far; only differences matter
}

// Rate is how fast one resource fills. The zero value is ready for use.
type Rate struct {
	begun bool
	first time.Duration // since when
	last  Reading
	// sum is the integral of the growth, weighted with exp(-age/Window)/Window. The
	// weights themselves sum up to 1-exp(-span/Window).
	sum float64
}

// Add takes a reading in.
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

// weightOf is the share of the mean that belongs to its last d.
func weightOf(d time.Duration) float64 { return -math.Expm1(-d.Seconds() / Window.Seconds()) }

// PerSecond is by how much writers fill the resource in a second; less than 0 if
// they empty it. It is known once readings cover MinSpan.
func (r *Rate) PerSecond() (rate float64, known bool) {
	span := r.last.At - r.first
	if !r.begun || span < MinSpan {
		return 0, false
	}
	return r.sum / weightOf(span), true
}

// SecondsToFull is after how many seconds nothing is available any more if writers
// go on like this and nothing is removed; +Inf if it does not fill. What is full
// already is known to be so at once.
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
