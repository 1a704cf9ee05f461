package events

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var reasons = []Reason{Hold, PulledAgain, ReclaimShort, Paused, Resumed}

// Whatever comes, and whenever somebody looks, the limits are kept, what waits and what is
// remembered are bounded, and no fact is counted twice or not at all.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		now, added, out, dropped := start, 0, 0, 0
		var posts []posted // all that ever were
		pace := rapid.SampledFrom([][]int{{1, 30, 59}, {59, 60, 61}, {0, 10, 600, 3600}}).Draw(t, "pace")
		come := reasons[:rapid.IntRange(1, len(reasons)).Draw(t, "reasons")]
		for range 150 {
			now = now.Add(time.Duration(rapid.SampledFrom(pace).Draw(t, "seconds")) * time.Second)
			for rapid.Bool().Draw(t, "fact") {
				f := Fact{Reason: rapid.SampledFrom(come).Draw(t, "reason"), Subject: fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "subject"))}
				for range rapid.IntRange(1, 5).Draw(t, "times") {
					added++
					dropped += q.add(f, now)
				}
			}
			for more := true; more; more = rapid.Bool().Draw(t, "look") {
				dropped += q.expire(now)
				w, ok := q.take(now)
				if !ok {
					if at, some := q.next(); some && !at.After(now) {
						t.Fatal("something may go, and does not")
					}
					break
				}
				out += w.times
				posts = append(posts, posted{w.reason, now})
				if rapid.Bool().Draw(t, "succeeds") {
					q.sent(w, q.event(w), now)
				}
			}
			waits := 0
			for _, w := range q.waiting {
				waits += w.times
			}
			if added != out+dropped+waits {
				t.Fatalf("%d facts: %d went, %d were dropped, %d wait", added, out, dropped, waits)
			}
			if len(q.waiting) > 32 || len(q.series) > 20 || len(q.posts) > 20 {
				t.Fatalf("%d wait, %d series, %d posts", len(q.waiting), len(q.series), len(q.posts))
			}
		}
		checkLimits(t, posts)
	})
}

// checkLimits looks back from each post.
func checkLimits(t *rapid.T, posts []posted) {
	for n, p := range posts {
		hour, own, minute := 0, 0, 0
		for _, other := range posts[:n+1] {
			ago := p.at.Sub(other.at)
			if ago < time.Hour {
				hour++
			}
			if ago < time.Hour && other.reason == p.reason {
				own++
			}
			if ago < time.Minute && other.reason == p.reason {
				minute++
			}
		}
		if hour > 20 || own > 10 || minute > 1 {
			t.Fatalf("at %v: %d in an hour, %d of them for one reason; %d of that in a minute", p.at, hour, own, minute)
		}
	}
}

func took(t *testing.T, q *queue, now time.Time) waiting {
	t.Helper()
	w, ok := q.take(now)
	if !ok {
		t.Fatal("nothing may go")
	}
	return w
}

// Repeats of a waiting Event are merged into it, with the latest message. A repeat of an Event that was
// posted counts as one more of the same Event, until the API server has forgotten that.
func TestRepeatedIsCounted(t *testing.T) {
	var q queue
	f := Fact{Reason: Hold, Subject: "/a", Message: "first"}
	q.add(f, start)
	f.Message = "second"
	q.add(f, start.Add(time.Second))
	at := start.Add(2 * time.Second)
	w := took(t, &q, at)
	first := q.event(w)
	if first.Again || first.Count != 2 || first.Message != "second" || !first.Warning || first.Reason != "EbbHold" ||
		!first.First.Equal(start) || !first.Last.Equal(start.Add(time.Second)) {
		t.Errorf("first: %+v", first)
	}
	q.sent(w, first, at)

	at = at.Add(50 * time.Minute)
	q.add(f, at)
	w = took(t, &q, at)
	second := q.event(w)
	if !second.Again || second.Name != first.Name || second.Count != 3 || !second.First.Equal(start) || !second.Last.Equal(at) {
		t.Errorf("second: %+v", second)
	}
	q.sent(w, second, at)

	f.Subject = "/b"
	q.add(f, at.Add(time.Minute))
	if other := q.event(took(t, &q, at.Add(time.Minute))); other.Again || other.Name == first.Name || other.Count != 1 {
		t.Errorf("of something else: %+v", other)
	}
	f.Subject, at = "/a", at.Add(time.Hour)
	q.add(f, at)
	if later := q.event(took(t, &q, at)); later.Again || later.Name == first.Name || later.Count != 1 {
		t.Errorf("after an hour: %+v", later)
	}
}

// A reason that comes with many subjects neither keeps others out of the queue nor out of the hour.
func TestOneReasonLeavesRoom(t *testing.T) {
	var q queue
	dropped := 0
	for n := range 100 {
		dropped += q.add(Fact{Reason: PulledAgain, Subject: fmt.Sprint(n)}, start)
	}
	if dropped != 100-32 || q.waiting[0].subject != "68" {
		t.Errorf("%d were dropped, the first that waits is %s", dropped, q.waiting[0].subject)
	}
	at, went := start, 0
	for ; at.Before(start.Add(30 * time.Minute)); at = at.Add(time.Minute) {
		if _, ok := q.take(at); ok {
			went++
		}
	}
	if went != 10 {
		t.Errorf("%d went in half an hour", went)
	}
	q.add(Fact{Reason: Paused}, at)
	if w := took(t, &q, at); w.reason != Paused {
		t.Errorf("%s went", w.reason)
	}
	if next, ok := q.next(); !ok || !next.Equal(start.Add(time.Hour)) {
		t.Errorf("the next one at %v, %v", next, ok)
	}
	if dropped := q.expire(start.Add(2 * time.Hour)); dropped != 22 {
		t.Errorf("%d were dropped as too old", dropped)
	}
}
