package breaker

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/gc"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func root(name string) gc.Coordinates {
	return gc.Coordinates{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: name, UID: "uid-" + name}
}

func made(l Limits) *Breaker {
	b := new(Breaker)
	b.Set(l)
	return b
}

// many deletions of a root at one moment; how many passed, and the last answer.
func (b *Breaker) many(now time.Time, r gc.Coordinates, n int) (passed int, last Grant) {
	for range n {
		if last = b.Acquire(now, r); last.Verdict != Pass {
			return passed, last
		}
		passed++
	}
	return passed, last
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Collectors, all of them and what they leave behind together, hold themselves at half of the window,
// whatever their own rates; the rest is the cascades'. They go on as the window slides.
func TestCollectorsLeaveHalf(t *testing.T) {
	b := made(Limits{Deletions: 6400, Window: 64 * time.Second, Cascade: Rate{10_000, 60}, Collector: Rate{3000, 60_000}})
	now := noon
	pass := func(name gc.Collector, n int) (passed int) {
		passed, last := b.many(now, name.Root(), n)
		if passed < n && (last.Verdict != Slowed || !last.RetryAt.After(now) || last.Batch < 1) {
			t.Fatalf("%s: %+v", name, last)
		}
		return passed
	}
	want(t, "by its own rate", pass("jobs", 10_000), 3000)
	want(t, "another, at half of the window", pass("pods", 10_000), 200)
	now = now.Add(2 * time.Second)
	want(t, "it holds while the window does not slide", pass("jobs", 10_000), 0)
	passed, last := b.many(now, root("a"), 10_000)
	want(t, "a cascade has the other half", passed, 3200)
	want(t, "and then the circuit breaker opens", last.Verdict, Exceeded)
	now = noon.Add(65 * time.Second)
	want(t, "after a window", pass("jobs", 10_000), 0) // the cascade was two seconds later
	now = noon.Add(67 * time.Second)
	want(t, "after that one", pass("jobs", 10_000), 3000)

	firsts := 0
	for range 30 { // as the window slides, a little may go each time; that is one slow-down
		now = now.Add(time.Second)
		if _, last := b.many(now, gc.Collector("jobs").Root(), 10_000); last.First {
			firsts++
		}
	}
	want(t, "how often a collector slows down for the first time", firsts, 1)

	free := made(Limits{})
	passed, _ = free.many(noon, gc.Collector("jobs").Root(), 100_000)
	want(t, "without limits", passed, 100_000)
	one := made(Limits{Deletions: 1, Window: time.Minute})
	passed, last = one.many(noon, gc.Collector("jobs").Root(), 9)
	want(t, "of one deletion", fmt.Sprint(passed, last.Verdict), fmt.Sprint(1, Slowed))
}

// A cascade that has spent its burst goes on at the slope, in ticks; others do not notice.
func TestEnvelope(t *testing.T) {
	b := made(Limits{Deletions: 100_000, Window: 10 * time.Minute, Cascade: Rate{100, 1200}})
	n, a := b.many(noon, root("a"), 500)
	want(t, "burst", n, 100)
	want(t, "verdict", fmt.Sprint(a.Verdict == Slowed, a.First, a.RetryAt.Sub(noon), a.Batch), "true true 1s 20")
	_, a = b.many(noon, root("a"), 1)
	want(t, "reported once", a.First, false)
	n, _ = b.many(noon, root("b"), 99)
	want(t, "another one", n, 99)
	now := noon
	for range 60 {
		now = now.Add(time.Second)
		n, _ = b.many(now, root("a"), 500)
		want(t, "in a second", n, 20)
	}
	list := b.Cascades(now, 10)
	want(t, "cascades", len(list), 1)
	want(t, "the slowed one", fmt.Sprint(list[0].Root.Name, list[0].Deletions, list[0].Left, list[0].Slowed), "a1300 0 true")
	want(t, "cascades later", len(b.Cascades(now.Add(time.Minute), 10)), 0)
	slow := made(Limits{Cascade: Rate{1, 2}})
	slow.many(noon, root("a"), 1)
	_, a = slow.many(noon, root("a"), 1)
	want(t, "a flat slope", fmt.Sprint(a.RetryAt.Sub(noon), a.Batch), "30s 1")
}

// What was not carried out costs nothing.
func TestGive(t *testing.T) {
	b := made(Limits{Deletions: 10, Window: time.Minute, Cascade: Rate{5, 1}})
	for i := range 100 {
		a := b.Acquire(noon.Add(time.Duration(i)*time.Millisecond), root("a"))
		if a.Verdict != Pass {
			t.Fatalf("%d: %v", i, a)
		}
		b.Return(a)
	}
	left, _ := b.Left(noon.Add(time.Second))
	want(t, "left", left, 10)
	b.Return(Grant{Verdict: Exceeded})
}

// The number of envelopes is bounded, and who has spent most is not forgotten for it.
func TestManyRoots(t *testing.T) {
	b := made(Limits{Cascade: Rate{1000, 60}})
	b.many(noon, root("big"), 900)
	for i := range 3 * maxEnvelopes {
		b.many(noon, root(fmt.Sprint(i)), 1+i%5)
		if len(b.envelopes) > maxEnvelopes {
			t.Fatalf("%d envelopes", len(b.envelopes))
		}
	}
	n, _ := b.many(noon, root("big"), 900)
	want(t, "left of the big one", n, 100)
	b.Set(Limits{})
	n, _ = b.many(noon, root("big"), 5000)
	want(t, "without limits", n, 5000)
}

// Whatever happens to whoever deletes, within a window no more go than the limit, and of
// one root no more than its burst, its slope and, for each crash, what no text named.
func TestKeptOverCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limits{Deletions: rapid.IntRange(600, 6000).Draw(t, "deletions"), Window: 10 * time.Minute, Cascade: Rate{rapid.IntRange(100, 3000).Draw(t, "burst"), rapid.IntRange(1, 2000).Draw(t, "slope")}}
		now, kept, crashes := noon, "", 0
		begin := func() *Breaker {
			b := made(l)
			if err := b.Restore(now, kept); err != nil {
				t.Fatal(err)
			}
			b.Persist(true)
			kept = b.Snapshot(now, false)
			b.Saved()
			return b
		}
		b := begin()
		all, ofRoot, busiest, paused := 0, map[string]int{}, 0, time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			r := root(rapid.SampledFrom([]string{"a", "a", "a", "b", "c"}).Draw(t, "root"))
			n, a := b.many(now, r, rapid.IntRange(1, 2000).Draw(t, "n"))
			all += n
			ofRoot[r.UID] += n
			busiest = max(busiest, ofRoot[r.UID])
			switch rapid.IntRange(0, 9).Draw(t, "then") {
			case 0:
				crashes++
				b = begin()
			case 1:
				kept = b.Snapshot(now, true)
				b.Saved()
				b = begin()
			case 2, 3:
				d := time.Duration(rapid.IntRange(1, 20_000).Draw(t, "ms")) * time.Millisecond
				now, paused = now.Add(d), paused+d
			default:
				if a.Verdict == Unsaved || b.SaveDue(now) || b.Dirty() {
					kept = b.Snapshot(now, false)
					b.Saved()
				}
			}
			if paused < l.Window*62/64 && all > l.Deletions {
				t.Fatalf("%d deletions within %v", all, paused)
			}
			most := float64(l.Cascade.Burst) + paused.Seconds()*l.Cascade.perSecond() + float64(crashes*maxUnsaved) + 1
			if float64(busiest) > math.Ceil(most) {
				t.Fatalf("%d of one root in %v with %d crashes, burst %d, slope %d", busiest, paused, crashes, l.Cascade.Burst, l.Cascade.PerMinute)
			}
		}
	})
}

// An orderly end forgets nothing and makes nothing up.
func TestOrderlyEnd(t *testing.T) {
	l := Limits{Deletions: 20_000, Window: 10 * time.Minute, Cascade: Rate{1000, 60}}
	b := made(l)
	b.Persist(true)
	now := noon
	for i, later := range []time.Duration{-time.Hour, 5 * time.Minute, 5 * time.Minute} { // the first clock is ahead
		b.Snapshot(now, false)
		b.Saved()
		n, a := b.many(now, root("a"), 10_000)
		for round := 0; i == 0 && n < 512; round++ {
			if a.Verdict != Unsaved || !b.Exhausted() || !b.SaveDue(now) || round > 2 {
				t.Fatalf("%d deleted, %+v", n, a)
			}
			b.Snapshot(now, false)
			b.Saved()
			var more int
			more, a = b.many(now, root("a"), 512-n)
			n += more
		}
		want(t, fmt.Sprint("deleted by number ", i), n, []int{512, 128, 128}[i])
		kept := b.Snapshot(now, true)
		b.Saved()
		want(t, "nothing is let through after the last one", b.Acquire(now, root("b")).Verdict, Unsaved)
		now = now.Add(later)
		b = made(l)
		if err := b.Restore(now, kept); err != nil {
			t.Fatal(err)
		}
		b.Persist(true)
	}
	left, _ := b.Left(now)
	want(t, "left of the window", left, 20_000-128) // what was before is too long ago
}

func TestTextsOfOthers(t *testing.T) {
	b := made(Limits{Deletions: 100, Window: time.Minute, Cascade: Rate{10, 60}})
	for _, bad := range []string{"{", `{"window":[["a"]]}`, "open"} {
		if b.Restore(noon, bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	odd := `{"at":"2026-07-01T12:00:00Z","ahead":-5,"window":[[-1,5],[5,-5],[99999999,3],[1,99999999999]],"cascades":[{"uid":"","used":5},{"uid":"x","used":-4}],"later":1}`
	if err := b.Restore(noon, odd); err != nil {
		t.Fatal(err)
	}
	left, _ := b.Left(noon)
	want(t, "left", left, 100)
	var big Breaker
	big.Set(Limits{Cascade: Rate{10, 1}})
	for i := range 1000 {
		r := root(fmt.Sprint(i))
		r.Name = strings.Repeat("\"<é", 80)
		big.many(noon, r, 10)
	}
	if kept := big.Snapshot(noon, false); len(kept) > 64<<10 {
		t.Errorf("%d bytes for an annotation", len(kept))
	}
}

func FuzzRecall(f *testing.F) {
	f.Add(`{"at":"2026-07-01T12:00:00Z","ahead":512,"window":[[0,5]],"cascades":[{"uid":"u","name":"n","used":5,"total":9}]}`)
	f.Fuzz(func(t *testing.T, kept string) {
		b := made(Limits{Deletions: 1000, Window: time.Minute, Cascade: Rate{10, 60}})
		if b.Restore(noon, kept) != nil {
			return
		}
		if left, _ := b.Left(noon); left > 1000 {
			t.Errorf("%d left", left)
		}
		b.Acquire(noon, root("a"))
	})
}

// Left is how many more deletions the window allows; ok is false if it has no limit.
func (b *Breaker) Left(now time.Time) (n int, ok bool) {
	if b.limits.Deletions == 0 {
		return 0, false
	}
	return b.window.left(now), true
}
