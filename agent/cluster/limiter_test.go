package cluster

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// round has as many requests sent as may be, and answered alike.
func (l *limiter) round(now time.Time, v verdict, took time.Duration) {
	n := l.free(now)
	for range n {
		l.sent()
	}
	for range n {
		l.answered(now.Add(took), v, took, 0)
	}
}

func TestLimiter(t *testing.T) {
	quick, slow := 5*time.Millisecond, 2*time.Second
	for name, tc := range map[string]struct {
		run  func(l *limiter) time.Time
		want int
	}{
		"grows while all is well": {func(l *limiter) time.Time {
			for range 100 {
				l.round(start, succeeded, quick)
			}
			return start
		}, 32},
		"does not grow when there is little to do": {func(l *limiter) time.Time {
			for range 1000 {
				l.sent()
				l.answered(start, succeeded, quick, 0)
			}
			return start
		}, 16},
		"halves once for a round of 429": {func(l *limiter) time.Time {
			l.round(start, throttled, quick)
			return start.Add(time.Hour)
		}, 8},
		"halves when answers take long": {func(l *limiter) time.Time {
			l.round(start, succeeded, quick)
			for range 4 {
				l.round(start.Add(time.Second), succeeded, slow)
			}
			return start.Add(time.Hour)
		}, 8},
		"one object that fails is not the server": {func(l *limiter) time.Time {
			for range 300 {
				l.sent()
				l.answered(start, failed, quick, 0)
				l.sent()
				l.answered(start, succeeded, quick, 0)
			}
			return start
		}, 16},
		"webhooks that fail are not, however many": {func(l *limiter) time.Time {
			for range 20 {
				l.round(start, webhook, quick)
			}
			return start
		}, 16},
		"all that fails is": {func(l *limiter) time.Time {
			now := start
			for range 8 {
				l.round(now, failed, quick)
				now = now.Add(time.Minute)
			}
			return now
		}, 1},
		"comes back": {func(l *limiter) time.Time {
			now := start
			for range 8 {
				l.round(now, throttled, quick)
				now = now.Add(time.Minute)
			}
			for range 1000 {
				l.round(now, succeeded, quick)
			}
			return now
		}, 32},
		"a lower cap": {func(l *limiter) time.Time { l.resize(4); return start }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLimiter(16, 32)
			if now := tc.run(&l); l.free(now) != tc.want {
				t.Errorf("free %d of limit %d, want %d", l.free(now), l.limit, tc.want)
			}
		})
	}
}

// What the server asks for is kept to.
func TestRetryAfter(t *testing.T) {
	l := newLimiter(4, 8)
	l.sent()
	l.answered(start, throttled, time.Millisecond, 3*time.Second)
	if n := l.free(start.Add(2999 * time.Millisecond)); n != 0 {
		t.Errorf("%d free before it is over", n)
	}
	if n := l.free(start.Add(3 * time.Second)); n != 2 {
		t.Errorf("%d free after it", n)
	}
}

// Whatever is answered, the limit stays within its bounds, something may be sent
// again in the end, and the books are kept.
func TestLimiterBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 64).Draw(t, "most")
		l := newLimiter(rapid.IntRange(1, most).Draw(t, "start"), most)
		now, flying := start, 0
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			if flying > 0 && rapid.Bool().Draw(t, "answer") {
				flying--
				l.answered(now, verdict(rapid.IntRange(0, 2).Draw(t, "verdict")), time.Duration(rapid.IntRange(1, 5000).Draw(t, "took"))*time.Millisecond,
					time.Duration(rapid.IntRange(0, 200).Draw(t, "after"))*time.Second)
			} else if l.free(now) > 0 {
				flying++
				l.sent()
			}
			if l.limit < 1 || l.limit > most || l.inFlight != flying {
				t.Fatalf("limit %d of %d, %d of %d on their way", l.limit, most, l.inFlight, flying)
			}
		}
		for range flying {
			l.answered(now, succeeded, time.Millisecond, 0)
		}
		if l.free(now.Add(time.Minute)) == 0 {
			t.Fatal("nothing may be sent a minute after the last answer")
		}
	})
}
