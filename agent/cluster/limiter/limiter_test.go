package limiter

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// round has as many requests sent as may be, and answered alike.
func (l *Limiter) round(now time.Time, v Verdict, took time.Duration) {
	n := l.Free(now)
	for range n {
		l.Sent()
	}
	for range n {
		l.Answered(now.Add(took), v, took, 0)
	}
}

func TestLimiter(t *testing.T) {
	quick, slow := 5*time.Millisecond, 2*time.Second
	for name, tc := range map[string]struct {
		run  func(l *Limiter) time.Time
		want int
	}{
		"grows while all is well": {func(l *Limiter) time.Time {
			for range 100 {
				l.round(start, Succeeded, quick)
			}
			return start
		}, 32},
		"does not grow when there is little to do": {func(l *Limiter) time.Time {
			for range 1000 {
				l.Sent()
				l.Answered(start, Succeeded, quick, 0)
			}
			return start
		}, 16},
		"halves once for a round of 429": {func(l *Limiter) time.Time {
			l.round(start, Throttled, quick)
			return start.Add(time.Hour)
		}, 8},
		"halves when answers take long": {func(l *Limiter) time.Time {
			l.round(start, Succeeded, quick)
			for range 4 {
				l.round(start.Add(time.Second), Succeeded, slow)
			}
			return start.Add(time.Hour)
		}, 8},
		"one object that fails is not the server": {func(l *Limiter) time.Time {
			for range 300 {
				l.Sent()
				l.Answered(start, Failed, quick, 0)
				l.Sent()
				l.Answered(start, Succeeded, quick, 0)
			}
			return start
		}, 16},
		"webhooks that fail are not, however many": {func(l *Limiter) time.Time {
			for range 20 {
				l.round(start, OfObject, quick)
			}
			return start
		}, 16},
		"all that fails is": {func(l *Limiter) time.Time {
			now := start
			for range 8 {
				l.round(now, Failed, quick)
				now = now.Add(time.Minute)
			}
			return now
		}, 1},
		"comes back": {func(l *Limiter) time.Time {
			now := start
			for range 8 {
				l.round(now, Throttled, quick)
				now = now.Add(time.Minute)
			}
			for range 1000 {
				l.round(now, Succeeded, quick)
			}
			return now
		}, 32},
		"a lower cap": {func(l *Limiter) time.Time { l.Resize(4); return start }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			l := New(16, 32)
			if now := tc.run(&l); l.Free(now) != tc.want {
				t.Errorf("free %d of limit %d, want %d", l.Free(now), l.limit, tc.want)
			}
		})
	}
}

// What the server asks for is kept to.
func TestRetryAfter(t *testing.T) {
	l := New(4, 8)
	l.Sent()
	l.Answered(start, Throttled, time.Millisecond, 3*time.Second)
	if n := l.Free(start.Add(2999 * time.Millisecond)); n != 0 {
		t.Errorf("%d free before it is over", n)
	}
	if n := l.Free(start.Add(3 * time.Second)); n != 2 {
		t.Errorf("%d free after it", n)
	}
}

// Whatever is answered, the limit stays within its bounds, something may be sent
// again in the end, and the books are kept.
func TestLimiterBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 64).Draw(t, "most")
		l := New(rapid.IntRange(1, most).Draw(t, "start"), most)
		now, flying := start, 0
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			if flying > 0 && rapid.Bool().Draw(t, "answer") {
				flying--
				l.Answered(now, Verdict(rapid.IntRange(0, 2).Draw(t, "verdict")), time.Duration(rapid.IntRange(1, 5000).Draw(t, "took"))*time.Millisecond,
					time.Duration(rapid.IntRange(0, 200).Draw(t, "after"))*time.Second)
			} else if l.Free(now) > 0 {
				flying++
				l.Sent()
			}
			if l.limit < 1 || l.limit > most || l.inFlight != flying {
				t.Fatalf("limit %d of %d, %d of %d on their way", l.limit, most, l.inFlight, flying)
			}
		}
		for range flying {
			l.Answered(now, Succeeded, time.Millisecond, 0)
		}
		if l.Free(now.Add(time.Minute)) == 0 {
			t.Fatal("nothing may be sent a minute after the last answer")
		}
	})
}
