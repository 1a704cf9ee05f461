package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/runtime/inventory"
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
	for pass := range maxPasses {
		run.hurry, run.doubt = pass == 0 && crossedNS != 0, false
		had := a.latest
		inv, err := a.observe(ctx, run.hurry)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			a.lookFailed(err)
			return
		}
		run.inv, run.listed = inv, inv == had
		if !a.decide(inv) {
			a.keepLatest(inv)
			break
		}
		if a.execute(ctx, run) != goOn {
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
	a.askAgain()
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

// inventory reads the runtime, again if it lacks images whose names have just been put back.
func (a *Agent) inventory(ctx context.Context) (asked time.Time, inv *inventory.Inventory, err error) {
	for {
		asked = a.clock.now()
		if inv, err = a.rt.Inventory(ctx); err != nil {
			return asked, nil, err
		}
		if !a.away.late(a.clock.now(), missingFrom(inv)) || !sleep(ctx, listedTick) {
			return asked, inv, nil
		}
		a.alive()
	}
}

// observe reads disk, runtime and kernel and brings the records up to date. Where it
// hurries, the latest inventory has to do, if the runtime has told of nothing since: to
// list thousands of images takes seconds, and one that has changed is not withdrawn.
func (a *Agent) observe(ctx context.Context, hurry bool) (*inventory.Inventory, error) {
	a.alive()
	a.catchUp()
	a.mend(ctx)
	if err := a.findPlaces(ctx); err != nil {
		return nil, err
	}
	// Without an answer the last one counts: what was wanted still is.
	_, _ = a.readPods(ctx)
	a.takeEvents()
	inv := a.latest
	if a.latest = nil; inv != nil && hurry && !a.told && !a.heard.IsZero() {
		a.harvest()
	} else {
		var err error
		if inv, err = a.list(ctx); err != nil {
			return nil, err
		}
	}
	for _, s := range a.stores {
		r, err := a.readDisk(ctx, s.filesystem)
		if err != nil {
			return nil, err // and r may be another filesystem's
		}
		if s.reading = r; s.lines.HighReached(r.Disk) { // whoever found it: the kernel's event may be on its way
			a.said.once(a.log, s.topic(), slog.LevelInfo, "filesystem reached its line",
				"reason", "threshold", "inodes", r.UsedPercent() < s.lines.HighPercent, "path", s.path)
		}
	}
	return inv, nil
}

// keepLatest keeps an inventory for the next look that hurries, unless the runtime has yet
// to list an image again: it does not tell when it does.
func (a *Agent) keepLatest(inv *inventory.Inventory) {
	missing := missingFrom(inv)
	for id := range a.away {
		if missing(id) {
			return
		}
	}
	a.latest = inv
}

func missingFrom(inv *inventory.Inventory) func(id string) bool {
	return func(id string) bool {
		return !slices.ContainsFunc(inv.Images, func(i inventory.Image) bool { return i.ID == id })
	}
}

// list reads the runtime and takes over what it says.
func (a *Agent) list(ctx context.Context) (*inventory.Inventory, error) {
	a.told = false
	asked, inv, err := a.inventory(ctx)
	if err != nil {
		a.roots = inventory.Roots{} // the runtime may come back with others
		return nil, fmt.Errorf("read the runtime's images: %w", err)
	}
	now := a.clock.now()
	a.merge(inv, asked, now)
	a.trackKnown(now)
	a.harvest()
	a.noteContainers(inv.Containers, asked)
	a.rec.Meta.Listed = asked
	a.reviewWriters(inv, asked)
	a.snapshots = inv.Snapshots
	a.indexHeat()
	return inv, nil
}
