package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
)

const (
	lookEvery = 2 * time.Millisecond
	// How many points are kept of a run: as many as a picture can show.
	tracePoints = 60
	// How many points are kept during a run. 300 s of changes are more than is needed.
	rawPoints = 4096
	// In percent of the disk: less than a tenth of what one image takes. Logs cause such changes.
	smallestChange = 0.05
)

// point is a moment, in ms since the fill, and the used percentage from then on.
type point [2]float64

// trace records how full the disk was after the fill, and when there was room.
type trace struct {
	threshold float64 // the percentage that is low enough
	room      int64   // this many bytes free count as a reaction

	points   []point // the changes, and the latest reading
	reaction time.Duration
	low      float64 // seconds to the threshold; +Inf if that was never reached

	reacted chan struct{} // closed once there is room
}

func newTrace(threshold float64, room int64) *trace {
	return &trace{threshold: threshold, room: room, low: math.Inf(1), reacted: make(chan struct{})}
}

// follow reads the disk until ctx ends. The trace must not be read before follow has returned.
func (t *trace) follow(ctx context.Context, since time.Time, look func() (int64, float64, error)) error {
	for {
		free, used, err := look()
		if err != nil {
			return err
		}
		t.add(time.Since(since), free, used)
		if benchmark.Pause(ctx, lookEvery) != nil {
			t.points = thin(t.points, tracePoints)
			return nil
		}
	}
}

// add adds one reading. The last point is always the latest reading, so that the trace shows how
// long the disk was watched.
func (t *trace) add(after time.Duration, free int64, used float64) {
	if t.reaction == 0 && free >= t.room {
		t.reaction = after
		close(t.reacted)
	}
	if used <= t.threshold {
		t.low = math.Min(t.low, after.Seconds())
	}
	now := point{round2(after.Seconds() * 1e3), round2(used)}
	n := len(t.points)
	switch {
	case n == 0:
		// The disk was full from the time of the call that filled it.
		t.points = []point{{0, now[1]}, now}
	case math.Abs(now[1]-t.points[n-2][1]) < smallestChange:
		t.points[n-1] = now
	default: // a change, which is also the latest reading
		t.points = append(t.points[:n-1], now, now)
	}
	if len(t.points) > rawPoints {
		t.points = thin(t.points, rawPoints/2)
	}
}

func (t *trace) awaitRoom(ctx context.Context, timeout time.Duration) error {
	select {
	case <-t.reacted:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(timeout):
		return fmt.Errorf("%w: %v", errNothing, timeout)
	}
}

// thin drops points until at most this many are left. Each time it drops the point that held for
// the shortest stretch of a logarithmic axis, because that is the least visible. It keeps the first
// and the last point.
func thin(points []point, most int) []point {
	points = slices.Clone(points)
	for len(points) > max(most, 2) {
		drop, shortest := 0, math.Inf(1)
		for i := 1; i < len(points)-1; i++ {
			if held := points[i+1][0] / math.Max(points[i][0], 1); held < shortest {
				drop, shortest = i, held
			}
		}
		points = slices.Delete(points, drop, drop+1)
	}
	return points
}

func round2(v float64) float64 { return math.Round(v*100) / 100 }

// outcomes are the outcomes of one contender, one for each run.
type outcomes []outcome

func (l outcomes) seconds(of func(outcome) float64) (values []float64) {
	for _, o := range l {
		values = append(values, of(o))
	}
	return values
}

func (l outcomes) reaction(percentile float64) float64 {
	return result.Round(result.Percentile(l.seconds(outcome.reaction), percentile))
}

func (l outcomes) mean() (m float64) {
	for _, v := range l.seconds(outcome.reaction) {
		m += v / float64(len(l))
	}
	return result.Round(m)
}

// low is the median time to the threshold; nil if the threshold was not reached at the median.
func (l outcomes) low() *float64 {
	v := result.Round(result.Percentile(l.seconds(func(o outcome) float64 { return o.trace.low }), 50))
	if math.IsInf(v, 1) {
		return nil
	}
	return &v
}

func (l outcomes) used() float64 {
	return result.Round(result.Percentile(l.seconds(func(o outcome) float64 { return o.used }), 50))
}

// typical is the trace of the run whose reaction is the median.
func (l outcomes) typical() []point {
	median := result.Percentile(l.seconds(outcome.reaction), 50)
	for _, o := range l {
		if o.reaction() == median {
			return o.trace.points
		}
	}
	return nil
}

func (l outcomes) removed() (most int) {
	for _, o := range l {
		most = max(most, o.removed)
	}
	return most
}

func (l outcomes) pulledAgain() (most uint64) {
	for _, o := range l {
		most = max(most, o.pulledAgain)
	}
	return most
}

func (o outcome) reaction() float64 { return o.trace.reaction.Seconds() }

func (o outcome) say(needed int) {
	benchmark.Say("room after %.3f s, low after %.3f s; %d images removed, %d needed; %.1f %% used", o.reaction(), o.trace.low, o.removed, needed, o.used)
}
