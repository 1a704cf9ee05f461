package main

import (
	"context"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/bench/soak/oracle"
)

// settle waits until nothing is outstanding, after the last fault.
func (b *fixture) settle(ctx context.Context, f *figures) error {
	benchmark.Say("the last fault is over; lifting the finalizers of others")
	if err := b.driver.liftAll(ctx, int(b.driver.next.Load())); err != nil {
		return err
	}
	watching, end := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() { defer close(watched); b.watch(watching) }()
	defer func() { end(); <-watched }()
	begun := time.Now()
	reported := begun
	var rest remainder
	for {
		if _, err := b.watcher.catchUp(ctx); err != nil {
			return err
		}
		now := time.Now()
		waits, missed := rest.look(now, b.oracle.Outstanding(now), b.bound, b.outsideBound)
		f.Late, f.LateOutside = result.Round(rest.late.Seconds()), result.Round(rest.lateOutside.Seconds())
		if len(waits) == 0 {
			f.Missed = len(missed)
			b.list("MISSED", missed, 20)
			benchmark.Say("%d missed after %v", f.Missed, now.Sub(begun).Round(100*time.Millisecond))
			return nil
		}
		if now.Sub(reported) > 15*time.Second {
			reported = now
			benchmark.Say("%d are outstanding still", len(waits))
			b.list("outstanding", waits, 2)
		}
		if !sleep(ctx, 200*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// list prints some, with their histories.
func (b *fixture) list(word string, due []oracle.Due, most int) {
	for _, d := range due[:min(most, len(due))] {
		benchmark.Say("%s %s %s\n%s", word, d.What, d.Name, b.oracle.History(d.UID))
	}
}

// remainder is what was outstanding at the last look, and since when. Each has its own time,
// because a cascade reaches some objects later.
type remainder struct {
	since             map[oracle.Due]time.Time
	late, lateOutside time.Duration
}

// look records what is outstanding now. It returns what to wait for, and what has been outstanding
// for too long. What depends on another API server has a bound of its own; 0 leaves it out.
func (r *remainder) look(now time.Time, due []oracle.Due, bound, outside time.Duration) (waits, missed []oracle.Due) {
	since := make(map[oracle.Due]time.Time, len(due))
	for _, d := range due {
		most, late := bound, &r.late
		if d.Outside {
			most, late = outside, &r.lateOutside
		}
		if most == 0 {
			continue
		}
		first, before := r.since[d]
		if !before {
			first = now
		}
		since[d] = first
		*late = max(*late, now.Sub(first))
		if now.Sub(first) > most {
			missed = append(missed, d)
		} else {
			waits = append(waits, d)
		}
	}
	r.since = since
	return waits, missed
}
