package breaker

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The window agrees with one that remembers every deletion, but for a slice of its
// window, and never lets one too many through within a window; also if the clock is set back once.
func TestWindowAgainstMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := time.Duration(rapid.IntRange(1, 600).Draw(t, "seconds")) * time.Second
		most := rapid.IntRange(1, 30).Draw(t, "most")
		var b window
		b.set(most, size)
		now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
		step, back := rapid.IntRange(0, 400).Draw(t, "step"), time.Duration(0)
		var all []time.Time
		count := func(within time.Duration) (n int) {
			for _, at := range all {
				if now.Sub(at) < within {
					n++
				}
			}
			return n
		}
		for n := range 200 {
			if n == step {
				back = rapid.SampledFrom([]time.Duration{0, size / 100, size, 10 * size}).Draw(t, "back")
			}
			now = now.Add(rapid.SampledFrom([]time.Duration{0, 1, size / 500, size / 70, size / 20}).Draw(t, "later"))
			clock := now.Add(-back)
			left := b.left(clock)
			took := b.acquire(clock)
			if took != (left > 0) || b.left(clock) != max(left-1, 0) {
				t.Fatalf("%d left, taken: %v, then %d left", left, took, b.left(clock))
			}
			slice := size / windowSlices
			if took && count(size-2*slice) >= most {
				t.Fatalf("one too many: %d within the window", count(size)+1)
			}
			if !took && count(size+4*slice+late) < most {
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
