package metadata

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestClock: the time is never ahead of the slowest clock that was heard of late, and
// with one clock at most a second behind it.
func TestClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Now()
		skew := time.Duration(rapid.Int64Range(-1e13, 1e13).Draw(t, "skew"))
		var c clock
		if _, ok := c.at(start); ok {
			t.Fatal("known without an answer")
		}
		now := start
		for range rapid.IntRange(1, 50).Draw(t, "answers") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 2e10).Draw(t, "pause")))
			took := time.Duration(rapid.Int64Range(0, 3e8).Draw(t, "took"))
			c.sample(now, now.Add(skew-took).Round(0).Truncate(time.Second))
			got, ok := c.at(now)
			if late := now.Add(skew).Sub(got); !ok || late < 0 || late > time.Second+300*time.Millisecond {
				t.Fatalf("%v late", late)
			}
		}
	})
}

// TestClocksDiffer: of several clocks the slowest counts, as long as it was heard in the
// last minutes.
func TestClocksDiffer(t *testing.T) {
	var c clock
	start := time.Now()
	hours := []time.Duration{0, 3 * time.Hour, -2 * time.Hour}
	for n, skew := range hours {
		now := start.Add(time.Duration(n) * time.Second)
		c.sample(now, now.Add(skew).Truncate(time.Second))
		want := now.Add(min(0, skew))
		if got, _ := c.at(now); got.After(want) || want.Sub(got) > time.Second {
			t.Errorf("%v early", got.Sub(want))
		}
	}
	// The sick ones are not heard again.
	for n := range 4 {
		now := start.Add(time.Duration(n+1) * 2 * sampleFor)
		c.sample(now, now.Truncate(time.Second))
	}
	now := start.Add(8 * sampleFor)
	if got, _ := c.at(now); now.Sub(got) > time.Second || got.After(now) {
		t.Errorf("still %v late", now.Sub(got))
	}
}
