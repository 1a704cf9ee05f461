package removal

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/policy/image"
)

// A cap counts the removals of the last hour, and has room again when fewer of them than it allows are
// younger than an hour. Removals with a time to come were noted under a wrong clock, and do not count.
func TestBudget(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		removals []time.Time
		free     int
		at       time.Time
	}{
		"none":      {nil, 2, now},
		"long ago":  {[]time.Time{ago(2 * time.Hour), ago(time.Hour)}, 2, now},
		"some":      {[]time.Time{ago(time.Hour), ago(time.Minute)}, 1, now},
		"used up":   {[]time.Time{ago(30 * time.Minute), ago(time.Minute)}, 0, now.Add(30 * time.Minute)},
		"to come":   {[]time.Time{ago(time.Minute), ago(-time.Hour), ago(-2 * time.Hour)}, 1, now},
		"cap lower": {[]time.Time{ago(3 * time.Minute), ago(2 * time.Minute), ago(time.Minute)}, 0, now.Add(58 * time.Minute)}, // then two of them are left
	} {
		if free, at := Budget(Within(c.removals, now), 2, now); free != c.free || !at.Equal(c.at) {
			t.Errorf("%s: %d free, more at %v; want %d at %v", name, free, at, c.free, c.at)
		}
	}
}

// A share is of all images of the hour, and allows ten at least. A number is that number.
func TestHourly(t *testing.T) {
	for _, c := range []struct {
		cap             config.Cap
		images, removed int
		want            int
	}{
		{"50%", 80, 0, 40}, {"50%", 41, 39, 40}, {"10%", 200, 0, 20}, {"10%", 80, 0, 10}, {"50%", 3, 0, 10}, {"100%", 80, 20, 100},
		{"500", 80, 0, 500}, {"3", 80, 0, 3},
	} {
		if got := Hourly(c.cap, c.images, make([]time.Time, c.removed)); got != c.want {
			t.Errorf("%s of %d images and %d removed: %d, want %d", c.cap, c.images, c.removed, got, c.want)
		}
	}
}

func TestCounts(t *testing.T) {
	removed := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		cap    config.Cap
		reason image.Reason
		age    time.Duration
		want   bool
	}{
		"share, old":               {"50%", image.RemovedThreshold, time.Hour, true},
		"share, young":             {"50%", image.RemovedThreshold, 59 * time.Minute, false},
		"share, young, asked":      {"50%", image.RemovedAsked, time.Minute, false},
		"share, young, by its age": {"50%", image.RemovedAge, time.Minute, true},
		"number, young":            {"500", image.RemovedThreshold, time.Minute, true},
	} {
		if got := Counts(c.cap, c.reason, removed.Add(-c.age), removed); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A node that pulls and drops images, and keeps as many as it has, is never held by half of its
// images, whatever its rate. The oldest images go, as they would. Two images are always in use: the
// sandbox image and ebb's own.
func TestHalfNeverHoldsChurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		arrived := make([]time.Time, rapid.IntRange(3, 200).Draw(t, "images"))
		unused := rapid.IntRange(1, len(arrived)-2).Draw(t, "unused")
		for i := range arrived {
			arrived[i] = now.Add(-24 * time.Hour)
		}
		var removals []time.Time
		for range rapid.IntRange(1, 2000).Draw(t, "pulls") {
			now = now.Add(time.Duration(rapid.IntRange(0, 600).Draw(t, "seconds")) * time.Second)
			removals = Within(removals, now)
			if free, _ := Budget(removals, Hourly("50%", len(arrived), removals), now); free == 0 {
				t.Fatalf("held after %d removals in an hour, with %d images", len(removals), len(arrived))
			}
			if Counts("50%", image.RemovedThreshold, arrived[0], now) {
				removals = append(removals, now)
			}
			arrived = append(arrived[1:unused:unused], append([]time.Time{now}, arrived[unused:]...)...)
		}
	})
}
