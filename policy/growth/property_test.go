package growth

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// genReadings draws what readers of a living disk see: writers that write and
// delete, removals, readings at any moment, some late, some twice.
func genReadings(t *rapid.T) []Reading {
	const capacity = 1 << 40
	x := Reading{At: time.Duration(rapid.Int64Range(0, 1<<50).Draw(t, "boot")), Capacity: capacity, Available: rapid.Uint64Range(0, capacity).Draw(t, "available")}
	list := []Reading{x}
	for range rapid.IntRange(0, 40).Draw(t, "readings") {
		x.At += time.Duration(rapid.Int64Range(0, int64(20*time.Minute)).Draw(t, "passed"))
		written := rapid.Int64Range(-1<<33, 1<<34).Draw(t, "written")
		freed := rapid.SampledFrom([]uint64{0, 0, 0, 1 << 20, 5 << 30}).Draw(t, "freed")
		available := int64(x.Available) - written + int64(freed)
		x.Available = uint64(min(max(available, 0), capacity))
		x.Reclaimed += freed
		list = append(list, x)
		if rapid.IntRange(0, 9).Draw(t, "late") == 0 {
			late := list[rapid.IntRange(0, len(list)-1).Draw(t, "which")]
			late.Available = capacity / 2 // of no matter
			list = append(list, late)
		}
	}
	return list
}

// oracle knows all readings, and weighs each second by its age: the definition,
// written down.
func oracle(readings []Reading) (rate float64, known bool) {
	var kept []Reading
	for _, x := range readings {
		if len(kept) == 0 || x.At > kept[len(kept)-1].At {
			kept = append(kept, x)
		}
	}
	now := kept[len(kept)-1].At
	if now-kept[0].At < MinSpan {
		return 0, false
	}
	weight := func(from, to time.Duration) float64 { // the integral of exp(-age/Window)
		w := Window.Seconds()
		return w * (math.Exp(-(now-to).Seconds()/w) - math.Exp(-(now-from).Seconds()/w))
	}
	var sum float64
	for i := 1; i < len(kept); i++ {
		a, b := kept[i-1], kept[i]
		written := float64(a.Available) - float64(b.Available) + float64(b.Reclaimed) - float64(a.Reclaimed)
		sum += written / (b.At - a.At).Seconds() * weight(a.At, b.At)
	}
	return sum / weight(kept[0].At, now), true
}

func near(a, b, scale float64) bool { return math.Abs(a-b) <= 1e-6*math.Max(scale, 1) }

// scaleOf is the largest rate in the readings, for what an error is measured against.
func scaleOf(readings []Reading) (most float64) {
	for i := 1; i < len(readings); i++ {
		a, b := readings[i-1], readings[i]
		if d := (b.At - a.At).Seconds(); d > 0 {
			most = max(most, (math.Abs(float64(a.Available)-float64(b.Available))+float64(b.Reclaimed-min(a.Reclaimed, b.Reclaimed)))/d)
		}
	}
	return most
}

func rateOf(readings []Reading) *Rate {
	r := &Rate{}
	for _, x := range readings {
		r.Add(x)
	}
	return r
}

func TestRateIsTheWeightedMean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		readings := genReadings(t)
		got, known := rateOf(readings).PerSecond()
		want, wantKnown := oracle(readings)
		if known != wantKnown || !near(got, want, scaleOf(readings)) {
			t.Fatalf("%v a second (known: %v), want %v (%v)", got, known, want, wantKnown)
		}
	})
}

func TestAnswersMakeSense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rateOf(genReadings(t))
		seconds, known := r.SecondsToFull()
		rate, rateKnown := r.PerSecond()
		switch {
		case math.IsNaN(seconds), seconds < 0, !known && seconds != 0:
			t.Fatalf("full in %v s (known: %v)", seconds, known)
		case r.last.Available == 0 && (seconds != 0 || !known):
			t.Fatalf("it is full, and reported to be in %v s (known: %v)", seconds, known)
		case r.last.Available > 0 && known != rateKnown:
			t.Fatal("the time is known if the rate is")
		case known && !math.IsInf(seconds, 1) && r.last.Available > 0:
			// Written on at this rate, it is full just then.
			if left := float64(r.last.Available) - rate*seconds; math.Abs(left) > 1e-6*float64(r.last.Available) {
				t.Fatalf("in %v s at %v a second, %v would be left of %d", seconds, rate, left, r.last.Available)
			}
		case known && rate > 0 && float64(r.last.Available)/rate <= Never.Seconds() && math.IsInf(seconds, 1):
			t.Fatalf("%v a second fill %d, and it is reported never to be full", rate, r.last.Available)
		}
	})
}

// Steady writing gives just that rate, whenever it is looked at.
func TestSteadyGrowth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perSecond := rapid.Int64Range(-1<<20, 1<<30).Draw(t, "rate")
		moments := rapid.SliceOfNDistinct(rapid.Int64Range(1, 40_000), 2, 30, rapid.ID).Draw(t, "seconds")
		slices.Sort(moments)
		var r Rate
		for _, s := range moments {
			r.Add(Reading{At: time.Duration(s) * time.Second, Capacity: 1 << 60, Available: uint64(1<<59 - s*perSecond)})
		}
		got, known := r.PerSecond()
		if want := moments[len(moments)-1]-moments[0] >= int64(MinSpan.Seconds()); known != want {
			t.Fatalf("known: %v", known)
		}
		if known && !near(got, float64(perSecond), math.Abs(float64(perSecond))) {
			t.Fatalf("%v a second, want %d", got, perSecond)
		}
	})
}

// A second scraper sees more, and changes nothing; nor does a removal.
func TestWhoElseReadsOrRemovesDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const perSecond = 1 << 20
		seconds := int64(rapid.IntRange(20, 3000).Draw(t, "seconds"))
		step := int64(rapid.IntRange(1, 60).Draw(t, "step"))
		removedAt := rapid.Int64Range(0, seconds).Draw(t, "removed at")
		alone, crowded := &Rate{}, &Rate{}
		for s := int64(0); s <= seconds; s++ {
			x := Reading{At: time.Duration(s) * time.Second, Capacity: 1 << 50, Available: uint64(1<<40 - s*perSecond)}
			if s%step == 0 || s == seconds {
				alone.Add(x)
			}
			if s >= removedAt {
				x.Reclaimed = 3 << 30
				x.Available += x.Reclaimed
			}
			crowded.Add(x)
		}
		a, _ := alone.PerSecond()
		b, _ := crowded.PerSecond()
		if !near(a, b, perSecond) || !near(a, perSecond, perSecond) {
			t.Fatalf("%v a second alone, %v beside another reader and a removal, want %v", a, b, perSecond)
		}
	})
}
