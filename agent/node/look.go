package node

import (
	"context"
	"fmt"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
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
	run := a.newRun(crossedNS)
	for range maxPasses {
		snapshot, err := a.observe(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			a.lookFailed(err)
			return
		}
		snapshot.ReclaimingBytes, snapshot.ReclaimingInodes = run.bytes, run.inodes
		a.plan = image.Decide(snapshot, a.clock.now())
		if len(a.plan.Remove) == 0 {
			run.bytes, run.inodes = false, false // at the low line, or nothing can be done now
			break
		}
		if a.execute(ctx, run) != goOn {
			break
		}
	}
	a.runEnded(run)
	a.explainHold(a.plan.Hold)
	a.rec.Meta.Hold = a.plan.Hold
	a.rec.Meta.ReclaimingBytes, a.rec.Meta.ReclaimingInodes = run.bytes, run.inodes
	if run.err != nil {
		a.lookFailed(run.err)
		return
	}
	now := a.clock.now()
	a.lookDone(now)
	a.alarms.set(alarmEvents, time.Time{})
	a.alarms.set(alarmPlan, a.planAlarm(now))
	a.exportPlan()
	a.save()
	a.resolveMore(now)
	a.setLine()
}

// planAlarm is when the plan changes by itself. It is kept a second away at
// least, so that no error in the arithmetic can make the loop spin.
func (a *Agent) planAlarm(now time.Time) time.Time {
	if a.plan.Next.IsZero() {
		return time.Time{}
	}
	return latest(a.plan.Next, now.Add(time.Second))
}

// observe reads disk, runtime and kernel into the policy's terms and brings
// the records up to date.
func (a *Agent) observe(ctx context.Context) (image.Snapshot, error) {
	a.alive()
	a.catchUp()
	if a.root == "" {
		root, err := a.rt.ImageRoot(ctx)
		if err != nil {
			return image.Snapshot{}, fmt.Errorf("find the image filesystem: %w", err)
		}
		a.root = root
		a.metrics.watch(a.disk, root)
	}
	asked := a.clock.now()
	inv, err := a.rt.Inventory(ctx)
	if err != nil {
		a.root = "" // the runtime may come back with another one
		return image.Snapshot{}, fmt.Errorf("read the runtime's images: %w", err)
	}
	now := a.clock.now()
	a.merge(inv, now)
	a.listed = asked
	a.trackKnown(now)
	a.harvest()
	a.noteContainers(inv.Containers)
	if a.reading, err = a.readDisk(ctx); err != nil {
		return image.Snapshot{}, err
	}
	a.reviewWriters(inv, asked)
	return a.snapshot(inv, now), nil
}

func (a *Agent) snapshot(inv *inventory.Inventory, now time.Time) image.Snapshot {
	s := image.Snapshot{
		Policy:  a.cfg.Policy(),
		Disk:    a.reading.Disk,
		Graph:   inv.Graph,
		Blocked: inv.Blocked,
		Hold:    a.rec.Meta.Hold,
		Images:  make([]image.Image, 0, len(inv.Images)),
	}
	for _, i := range inv.Images {
		r := a.rec.Images[i.ID]
		s.Images = append(s.Images, image.Image{
			ID: i.ID, References: i.References, UsedBy: i.UsedBy,
			Pinned: i.Pinned, Sandbox: i.Sandbox, Keep: a.keep.Match(i.References),
			LastUsed: r.LastUsed, Arrived: r.Arrived, Observed: r.Observed,
			RetryAt: a.failures[i.ID].until, Roots: i.Roots,
		})
	}
	return s
}

// poll reads the disk only, where no kernel line can be set, and looks at
// everything if a high line is reached that was not before.
func (a *Agent) poll(ctx context.Context) {
	a.metrics.polls.Inc()
	a.alarms.set(alarmPoll, a.clock.now().Add(pollInterval))
	if a.rt == nil || a.root == "" {
		return
	}
	r, err := a.stat()
	if err != nil {
		a.lookFailed(err)
		return
	}
	if a.line.polled(r, a.cfg.Policy()) {
		a.reading = r
		a.look(ctx, uint64(a.boot()))
	}
}
