package breaker

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The window agrees with one that remembers every deletion, but for a slice of its
// window, and never lets one too many through within a window.
func TestWindowAgainstMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := time.Duration(rapid.IntRange(1, 600).Draw(t, "seconds")) * time.Second
		most := rapid.IntRange(1, 30).Draw(t, "most")
		var b window
		b.set(most, size)
		now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
		var all []time.Time
		count := func(within time.Duration) (n int) {
			for _, at := range all {
				if now.Sub(at) < within {
					n++
				}
			}
			return n
		}
		for range 200 {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(size)/20).Draw(t, "later")))
			left := b.left(now)
			took := b.acquire(now)
			if took != (left > 0) || b.left(now) != max(left-1, 0) {
				t.Fatalf("%d left, taken: %v, then %d left", left, took, b.left(now))
			}
			slice := size / windowSlices
			if took && count(size-2*slice) >= most {
				t.Fatalf("one too many: %d within the window", count(size)+1)
			}
			if !took && count(size+2*slice) < most {
				t.Fatalf("refused after %d", count(size))
			}
			if took {
				all = append(all, now)
			}
		}
	})
}

func TestNoLimit(t *testing.T) {
	var b window
	b.set(0, time.Minute)
	now := time.Now()
	for range 1000 {
		if !b.acquire(now) {
			t.Fatal("refused without a limit")
		}
	}
	b.set(1000, time.Minute) // what was counted before counts
	if b.acquire(now) {
		t.Error("taken beyond the limit")
	}
	if b.reset(); !b.acquire(now) {
		t.Error("refused after the reset")
	}
	if !b.acquire(now.Add(-time.Hour)) {
		t.Error("a clock that goes backwards stops nothing")
	}
}
