package breaker

import "time"

const (
	// windowSlices is the number of slices of a window.
	windowSlices = 64
	// late is how far one caller's time may be behind another's. Beyond that the clock was set back.
	late = time.Second
)

// window counts deletions within a time that slides by 1/64 of itself. It measures time from one input
// to the next, so a clock that was set back does not stop it.
type window struct {
	most   int // 0: no limit
	width  time.Duration
	counts [windowSlices]int
	sum    int
	last   int64     // the slice of the last input, counted up from windowSlices
	at     time.Time // when that slice began; zero: no input yet
}

func (w *window) set(most int, size time.Duration) {
	w.most = most
	width := max(size/windowSlices, time.Millisecond)
	if width == w.width {
		return
	}
	old := w.snapshot(w.at) // the deletions of the last slice still count
	w.reset()
	w.width = width
	for _, c := range old {
		w.add(w.at, w.at.Add(-time.Duration(c[0])*time.Millisecond), int(c[1]))
	}
}

func (w *window) reset() { w.counts, w.sum = [windowSlices]int{}, 0 }

// slide moves the window to now.
func (w *window) slide(now time.Time) {
	if w.at.IsZero() {
		w.at, w.last = now, windowSlices
	}
	if w.at.Sub(now) > late {
		w.at = now
	}
	passed := max(int64(now.Sub(w.at)/w.width), 0)
	w.at = w.at.Add(time.Duration(passed) * w.width)
	if passed >= windowSlices {
		w.reset()
	} else {
		for s := w.last + 1; s <= w.last+passed; s++ {
			w.sum -= w.counts[s%windowSlices]
			w.counts[s%windowSlices] = 0
		}
	}
	w.last += passed
}

// left returns how many more deletions the limit allows.
func (w *window) left(now time.Time) int {
	w.slide(now)
	return max(w.most-w.sum, 0)
}

// acquire counts one more deletion, if the limit allows it.
func (w *window) acquire(now time.Time) bool {
	w.slide(now)
	if w.most > 0 && w.sum >= w.most {
		return false
	}
	w.sum++
	w.counts[w.last%windowSlices]++
	return true
}

// release takes back a deletion that was counted in a slice.
func (w *window) release(slice int64) {
	if w.last-slice < windowSlices && w.counts[slice%windowSlices] > 0 {
		w.counts[slice%windowSlices]--
		w.sum--
	}
}

// snapshot returns the slices that have deletions: how many milliseconds ago the middle of the
// slice was, and the number of deletions.
func (w *window) snapshot(now time.Time) (list [][2]int64) {
	if w.at.IsZero() {
		return nil
	}
	w.slide(now)
	for s := w.last - windowSlices + 1; s <= w.last; s++ {
		if n := w.counts[s%windowSlices]; n > 0 {
			middle := w.at.Add(w.width/2 - time.Duration(w.last-s)*w.width)
			list = append(list, [2]int64{max(now.Sub(middle), 0).Milliseconds(), int64(n)})
		}
	}
	return list
}

// add counts n deletions at another time, if that time is within the window.
func (w *window) add(now, at time.Time, n int) {
	w.slide(now)
	ago := int64(0) // slices
	if at.Before(w.at) {
		ago = int64((w.at.Sub(at) + w.width - 1) / w.width)
	}
	if ago < windowSlices {
		w.counts[(w.last-ago)%windowSlices] += n
		w.sum += n
	}
}
