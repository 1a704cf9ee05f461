package removal

import (
	"testing"
	"time"
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
