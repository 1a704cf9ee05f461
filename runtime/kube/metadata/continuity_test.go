package metadata

import (
	"testing"
	"time"
)

// An absence counts from when it was noticed or, if only silence shows it, from
// when something was heard, to when something answers.
func TestContinuity(t *testing.T) {
	start := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	type at struct {
		second float64
		what   string // hear, miss, silence
	}
	for name, test := range map[string]struct {
		events []at
		want   uint64
	}{
		"nothing wrong":               {[]at{{0, "hear"}, {100, "hear"}}, 0},
		"a cut":                       {[]at{{0, "hear"}, {100, "miss"}, {100.5, "hear"}}, 0},
		"away":                        {[]at{{0, "hear"}, {100, "miss"}, {101, "miss"}, {102, "hear"}}, 1},
		"away, and all hear it again": {[]at{{0, "hear"}, {100, "miss"}, {103, "hear"}, {103, "hear"}, {104, "hear"}}, 1},
		"twice":                       {[]at{{0, "hear"}, {100, "miss"}, {103, "hear"}, {200, "miss"}, {203, "hear"}}, 2},
		"silent":                      {[]at{{0, "hear"}, {45, "silence"}, {45.1, "hear"}}, 1},
		"silence noticed after a cut": {[]at{{0, "hear"}, {45, "miss"}, {45.1, "silence"}, {45.2, "hear"}}, 0},
		"from the beginning":          {[]at{{0, "silence"}, {1, "hear"}}, 0},
		"another watch hears":         {[]at{{0, "hear"}, {100, "miss"}, {101, "hear"}, {101, "miss"}, {102.5, "hear"}}, 0},
	} {
		c := continuity{after: awayAfter}
		var epoch uint64
		for _, e := range test.events {
			now := start.Add(time.Duration(e.second * float64(time.Second)))
			if e.what == "hear" {
				epoch = c.hear(now)
			} else {
				c.miss(now, e.what == "silence")
			}
		}
		if epoch != test.want {
			t.Errorf("%s: away %d times, want %d", name, epoch, test.want)
		}
	}
}
