package clock_test

import (
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/state"
)

// An end that the runtime dates is never taken for earlier than it was, whichever way the
// clock was set once since the boot, before the end or after it. It is known where the date can
// mean one time only, because the other would be in the future or before the boot.
func TestEndByAClockThatWasSet(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, set := range []time.Duration{0, time.Hour, -time.Hour, 100 * 24 * time.Hour, -100 * 24 * time.Hour} {
		for _, before := range []bool{false, true} { // the clock was set before the end
			boot := 10 * time.Hour
			var skew time.Duration
			c := clock.New(state.Anchor{}, "b", clock.Sources{
				Boot: func() time.Duration { return boot },
				Wall: func() time.Time { return start.Add(boot + skew) },
			})
			if before {
				skew = set
			}
			boot += 2 * time.Hour
			truth, wall := c.Now(), c.Wall()
			boot += 3 * time.Hour
			skew = set
			got := c.End(wall)
			if got.Before(truth) || got.After(c.Now()) || (set == 0 || set.Abs() > boot) && !got.Equal(truth) {
				t.Errorf("the clock set by %v, before the end: %v: it ended at %v, taken for %v", set, before, truth, got)
			}
			start := c.AtBoot(0)
			if at := c.End(start.Add(-time.Second)); at.Before(start) || set == 0 && !at.Equal(c.Now()) {
				t.Errorf("the clock set by %v: an end from before the boot, %v, is taken for %v", set, start, at)
			}
		}
	}
}

// The zero time counts as no time, at any position.
func TestEarliest(t *testing.T) {
	var none time.Time
	one, two := time.Unix(1, 0), time.Unix(2, 0)
	for _, times := range [][]time.Time{{one}, {one, two}, {two, one}, {none, two, none, one}, {one, none}} {
		if got := clock.Earliest(times...); !got.Equal(one) {
			t.Errorf("the earliest of %v is %v", times, got)
		}
	}
	if got := clock.Earliest(none, none); !got.IsZero() || !clock.Earliest().IsZero() {
		t.Errorf("the earliest of none is %v", got)
	}
}
