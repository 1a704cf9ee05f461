package node

import (
	"context"
	"fmt"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"time"
)

// maxPasses bounds how often one look may find more to remove after it has
// removed. Each pass plans anew from a fresh reading, so two are usual: one
// that works, one that finds nothing left to do.
const maxPasses = 8

// look reads the world, decides, acts, and sets the next alarms. crossedNS is
// the CLOCK_BOOTTIME of the crossing that caused it, 0 for other causes.
func (a *Agent) look(ctx context.Context, crossedNS uint64) {
	if a.rt == nil {
		return // the connector is at it
	}
	run := &run{crossedNS: crossedNS}
	for range maxPasses {
		inv, err := a.observe(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			a.lookFailed(err)
			return
		}
		if !a.decide(inv, a.clock.now()) || a.execute(ctx, run) != goOn {
			break
		}
	}
	a.runEnded(run)
	next := a.planned()
	if run.err != nil {
		a.lookFailed(run.err)
		return
	}
	now := a.clock.now()
	a.lookDone(now)
	a.alarms.set(alarmEvents, time.Time{})
	a.alarms.set(alarmPlan, planAlarm(next, now))
	a.exportPlan()
	a.save()
	a.resolveMore(now)
	a.setLines()
	a.tendOthers(ctx)
}

// planAlarm is when the plan changes by itself. It is kept a second away at
// least, so that no error in the arithmetic can make the loop spin.
func planAlarm(next, now time.Time) time.Time {
	if next.IsZero() {
		return time.Time{}
	}
	return latest(next, now.Add(time.Second))
}

// observe reads disk, runtime and kernel and brings the records up to date.
func (a *Agent) observe(ctx context.Context) (*inventory.Inventory, error) {
	a.alive()
	a.catchUp()
	a.mend(ctx)
	if err := a.findPlaces(ctx); err != nil {
		return nil, err
	}
	// Without an answer the last one counts: what was wanted still is.
	_, _ = a.readPods(ctx)
	asked := a.clock.now()
	inv, err := a.rt.Inventory(ctx)
	if err != nil {
		a.roots = inventory.Roots{} // the runtime may come back with others
		return nil, fmt.Errorf("read the runtime's images: %w", err)
	}
	now := a.clock.now()
	a.merge(inv, now)
	a.listed = asked
	a.trackKnown(now)
	a.harvest()
	a.noteContainers(inv.Containers)
	for _, s := range a.stores {
		r, err := a.readDisk(ctx, s.filesystem)
		if err != nil {
			return nil, err // and r may be another filesystem's
		}
		s.reading = r
	}
	a.reviewWriters(inv, asked)
	a.snapshots = inv.Snapshots
	a.indexHeat()
	return inv, nil
}
