package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// look is one reading of a made-up disk of 1000 bytes.
type look struct {
	after time.Duration
	used  float64
}

func (l look) free() int64 { return int64(1000 - 10*l.used) }

func looks(t *rapid.T) (list []look) {
	after := time.Duration(0)
	for range rapid.IntRange(1, 300).Draw(t, "looks") {
		after += time.Duration(rapid.IntRange(1, 100).Draw(t, "ms")) * time.Millisecond
		list = append(list, look{after, float64(rapid.IntRange(50, 90).Draw(t, "used"))})
	}
	return list
}

// The moments are those of the first look that has what is asked for; between two
// looks the trace has what the earlier one saw.
func TestTraceAgainstLooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := looks(t)
		tr := newTrace(60, 1000-10*80)
		for _, l := range all {
			tr.add(l.after, l.free(), l.used)
		}
		wantReaction, wantLow := time.Duration(0), math.Inf(1)
		for _, l := range slices.Backward(all) {
			if l.used <= 80 {
				wantReaction = l.after
			}
			if l.used <= 60 {
				wantLow = l.after.Seconds()
			}
		}
		if tr.reaction != wantReaction || tr.low != wantLow {
			t.Fatalf("room after %v, low after %v; want %v, %v", tr.reaction, tr.low, wantReaction, wantLow)
		}
		for _, l := range all {
			if got := at(tr.points, l.after); got != l.used {
				t.Fatalf("%v at %v, want %v: %v", got, l.after, l.used, tr.points)
			}
		}
		if end := tr.points[len(tr.points)-1]; end[0] != float64(all[len(all)-1].after.Milliseconds()) {
			t.Fatalf("ends at %v ms", end[0])
		}
	})
}

// at reads a trace as the picture does.
func at(points []point, after time.Duration) (used float64) {
	for _, p := range points {
		if p[0] <= float64(after.Milliseconds()) {
			used = p[1]
		}
	}
	return used
}

// Thinning keeps the ends and the order, and a plateau rather than a blip.
func TestThin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := []point{{0, 87}}
		for range rapid.IntRange(1, 200).Draw(t, "points") {
			all = append(all, point{all[len(all)-1][0] + rapid.Float64Range(0, 1000).Draw(t, "held"), 50})
		}
		most := rapid.IntRange(2, 100).Draw(t, "most")
		got := thin(all, most)
		if len(got) != min(most, len(all)) || got[0] != all[0] || got[len(got)-1] != all[len(all)-1] {
			t.Fatalf("%d of %d left, from %v to %v", len(got), len(all), got[0], got[len(got)-1])
		}
		if !slices.IsSortedFunc(got, func(a, b point) int { return int(math.Copysign(1, a[0]-b[0])) }) {
			t.Fatalf("not in order: %v", got)
		}
	})
	blip := []point{{0, 87}, {10, 80}, {11, 70}, {100, 60}, {1000, 60}}
	if got, want := thin(blip, 4), slices.Delete(slices.Clone(blip), 1, 2); !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestTraceIsBounded(t *testing.T) {
	tr := newTrace(60, 1<<40)
	for i := range 3 * rawPoints {
		tr.add(time.Duration(i)*time.Millisecond, 0, float64(i%2))
		if len(tr.points) > rawPoints+1 {
			t.Fatalf("%d points", len(tr.points))
		}
	}
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		tr, begun, ended := newTrace(60, 300), time.Now(), make(chan error)
		go func() {
			ended <- tr.follow(ctx, begun, func() (int64, float64, error) {
				if time.Since(begun) < time.Second {
					return 100, 90, nil
				}
				return 500, 50, nil
			})
		}()
		if err := tr.awaitRoom(ctx, 2*time.Second); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second + lookEvery/2) // the bubble's, not the machine's; between two looks
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		want := []point{{0, 90}, {1000, 50}, {2000, 50}}
		if !slices.Equal(tr.points, want) || tr.reaction != time.Second || tr.low != 1 {
			t.Fatalf("got %v, room after %v, low after %v s", tr.points, tr.reaction, tr.low)
		}
	})
}

func TestAwaitRoomEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := newTrace(60, 1).awaitRoom(t.Context(), time.Minute); !errors.Is(err, errNothing) {
			t.Fatalf("err = %v", err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := newTrace(60, 1).awaitRoom(ctx, time.Minute); !errors.Is(err, context.Canceled) {
			t.Fatalf("err = %v", err)
		}
	})
}

func TestOutcomes(t *testing.T) {
	run := func(reaction time.Duration, low float64, removed int) outcome {
		return outcome{trace: &trace{reaction: reaction, low: low, points: []point{{float64(removed), 0}}}, removed: removed}
	}
	all := outcomes{run(3*time.Second, 9, 1), run(time.Second, 5, 7), run(2*time.Second, math.Inf(1), 3)}
	if all.reaction(50) != 2 || all.reaction(100) != 3 || all.removed() != 7 || *all.low() != 9 || all.typical()[0][0] != 3 {
		t.Fatalf("reaction %v, at most %v, removed %d, low %v, typical %v", all.reaction(50), all.reaction(100), all.removed(), *all.low(), all.typical())
	}
	if never := (outcomes{run(1, 1, 1), run(1, math.Inf(1), 1), run(1, math.Inf(1), 1)}).low(); never != nil {
		t.Fatalf("low after %v", *never)
	}
}
