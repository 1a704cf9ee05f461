package breaker

import "time"

// windowSlices is the number of slices of a window.
const windowSlices = 64

// window counts deletions within a time that slides by 1/64 of itself.
type window struct {
	most   int // 0: no limit
	width  time.Duration
	counts [windowSlices]int
	sum    int
	last   int64 // the slice of the last deletion, counted from the epoch
}

func (w *window) set(most int, size time.Duration) {
	w.most = most
	width := max(size/windowSlices, time.Millisecond)
	if width == w.width {
		return
	}
	last := time.Unix(0, w.last*int64(w.width)) // start of the last slice; its deletions still count
	old := w.snapshot(last)
	w.reset()
	w.width, w.last = width, last.UnixNano()/int64(width)
	for _, c := range old {
		w.add(last, last.Add(-time.Duration(c[0])*time.Millisecond), int(c[1]))
	}
}

func (w *window) reset() { w.counts, w.sum = [windowSlices]int{}, 0 }

// slide moves the window to now.
func (w *window) slide(now time.Time) {
	at := now.UnixNano() / int64(w.width)
	if at-w.last >= windowSlices {
		w.reset()
	} else {
		for s := w.last + 1; s <= at; s++ {
			w.sum -= w.counts[s%windowSlices]
			w.counts[s%windowSlices] = 0
		}
	}
	w.last = max(w.last, at)
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
	if w.width == 0 {
		return nil
	}
	w.slide(now)
	for s := max(w.last-windowSlices+1, 0); s <= w.last; s++ {
		if n := w.counts[s%windowSlices]; n > 0 {
			middle := time.Unix(0, s*int64(w.width)+int64(w.width)/2)
			list = append(list, [2]int64{max(now.Sub(middle), 0).Milliseconds(), int64(n)})
		}
	}
	return list
}

// add counts n deletions at another time, if that time is within the window.
func (w *window) add(now, at time.Time, n int) {
	w.slide(now)
	s := min(at.UnixNano()/int64(w.width), w.last)
	if w.last-s < windowSlices {
		w.counts[s%windowSlices] += n
		w.sum += n
	}
}
