package cluster

import "time"

// brakeSlices is how finely a brake's window is cut.
const brakeSlices = 64

// brake counts deletions within a window that slides by 1/64 of itself.
type brake struct {
	most   int // 0: no limit
	width  time.Duration
	counts [brakeSlices]int
	sum    int
	last   int64 // the slice of the last deletion, counted from the epoch
}

func (b *brake) set(most int, window time.Duration) {
	if width := max(window/brakeSlices, time.Millisecond); width != b.width {
		b.reset()
		b.width = width
	}
	b.most = most
}

func (b *brake) reset() { b.counts, b.sum = [brakeSlices]int{}, 0 }

// slide the window up to now.
func (b *brake) slide(now time.Time) {
	at := now.UnixNano() / int64(b.width)
	if at-b.last >= brakeSlices {
		b.reset()
	} else {
		for s := b.last + 1; s <= at; s++ {
			b.sum -= b.counts[s%brakeSlices]
			b.counts[s%brakeSlices] = 0
		}
	}
	b.last = max(b.last, at)
}

// left is how many more the limit allows.
func (b *brake) left(now time.Time) int {
	b.slide(now)
	return max(b.most-b.sum, 0)
}

// take counts one more, if the limit allows it.
func (b *brake) take(now time.Time) bool {
	b.slide(now)
	if b.most > 0 && b.sum >= b.most {
		return false
	}
	b.sum++
	b.counts[b.last%brakeSlices]++
	return true
}
