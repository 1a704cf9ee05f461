package reclaim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/agent/node/history"
	"github.com/ebb-agent/ebb/agent/node/lastuse"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/node/removal"
	"github.com/ebb-agent/ebb/agent/node/watermark"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// verdict is whether the run continues.
type verdict bool

const (
	goOn verdict = true  // read again, and make a new plan
	stop verdict = false // the run is over
)

// Run is one reclaim run: all passes of one look, or of one request. Each pass has a Plan and, if that
// removes something, an Execute.
type Run struct {
	r         *Reclaimer
	o         *Options
	asked     *Asked // nil: thresholds and ages ask for it
	crossedNS uint64
	pass      pass
	group     int // size of the last group, if all of it was removed; otherwise 0
	pace      pace
	asking    sync.WaitGroup // queries for users that are under way
	stopBy    time.Time      // until when names are restored after the agent was stopped; zero: it was not
	outcome   outcome
}

// pass is the state of the current pass.
type pass struct {
	inv    *inventory.Inventory // without removed images; needed ones are marked as used
	hurry  bool                 // it may plan from an inventory that was at hand
	listed bool                 // the runtime has sent no event since it listed its images
	doubt  bool                 // a removal failed, and it may be the runtime's fault, not the image's
	away   error                // why the names of an image could not be restored; the latest one
}

// outcome is the result of a run.
type outcome struct {
	trigger         image.Reason // "": there was nothing to do
	started         time.Time
	removed, failed int
	freed           uint64
	result          string
	err             error // the node could not be read, or the runtime became unavailable
}

// Begin makes a run. crossedNS is the CLOCK_BOOTTIME in ns of the crossing that asks for it, 0 for
// other causes. With hurry, the first pass may plan from an inventory that is at hand.
func (r *Reclaimer) Begin(crossedNS uint64, hurry bool) *Run {
	return &Run{r: r, o: r.o, crossedNS: crossedNS, pass: pass{hurry: hurry}}
}

// Hurries reports whether the next pass may plan from an inventory that is at hand.
func (run *Run) Hurries() bool { return run.pass.hurry }

// Plan begins a pass with an inventory, which the run may change. atHand is true if the runtime has
// sent no event since it listed that inventory. Plan returns false if there is nothing to remove.
func (run *Run) Plan(inv *inventory.Inventory, atHand bool) (work bool) {
	run.pass = pass{inv: inv, hurry: run.pass.hurry, listed: atHand}
	if run.r.shadow != nil {
		run.r.observe(inv, &run.outcome)
		return false
	}
	return run.r.decide(inv)
}

// Execute carries out the target's plan group by group. After each group it makes a new plan, from the
// same inventory and the latest reading. Other processes write and delete at the same time, and a first
// reading can be wrong for a moment (ext4 counts blocks twice while it allocates them). Every removal
// of an image passes Execute, and the gate that dead containers pass, too. Execute returns whether
// there should be another pass.
func (run *Run) Execute(ctx context.Context) (again bool) {
	defer func() { run.pass.hurry = false }()
	r := run.r
	if r.gate.Observe || run.paused() {
		return false
	}
	r.executing = true
	defer func() { r.executing = false }()
	for first := true; first || r.planAgain(run.pass.inv, run.pace.fast(r.target, run.o.Boot())); first = false {
		if ctx.Err() != nil || run.paused() {
			return false
		}
		if run.begin(r.target) {
			run.o.Save()
		}
		free, capped := run.allowed()
		if free == 0 {
			run.outcome.result = capped
			return false
		}
		plan := r.target.plan.Remove
		plan = plan[:min(run.groupSize(), free, len(plan))]
		spared, v := run.removeGroup(ctx, plan)
		if v == stop {
			return false
		}
		if run.pass.doubt || spared == len(plan) || run.pass.away != nil {
			return true // mend, and read everything before the next try: the disk's figure varies
		}
	}
	return true
}

// begin takes the target's plan into the run. From now on the low threshold counts, not the high one;
// news is true if the high one counted before.
func (run *Run) begin(f *filesystem) (news bool) {
	if run.asked != nil {
		return false
	}
	p, was := f.plan, *f.kept
	f.kept.ReclaimingBytes = f.kept.ReclaimingBytes || p.NeedBytes > 0
	f.kept.ReclaimingInodes = f.kept.ReclaimingInodes || p.NeedInodes > 0
	f.kept.HighPercent, f.kept.InodesHighPercent = f.Thresholds.HighPercent, f.Thresholds.InodesHighPercent
	if run.outcome.started.IsZero() {
		run.outcome.started = run.o.Now()
	}
	run.pace.planned(f, run.o.Boot())
	for _, d := range p.Remove {
		if run.outcome.trigger == "" || d.Reason == image.RemovedThreshold {
			run.outcome.trigger = d.Reason
		}
	}
	return f.kept.ReclaimingBytes != was.ReclaimingBytes || f.kept.ReclaimingInodes != was.ReclaimingInodes
}

// paused ends the run if a person has paused the agent.
func (run *Run) paused() bool {
	if run.r.gate.Paused() == nil {
		return false
	}
	run.outcome.result = resultPaused
	return true
}

// allowed returns how many images the hourly caps let the run remove. If a cap is used up, the run ends
// with that result, and continues when there is room again.
func (run *Run) allowed() (free int, result string) {
	hourly := run.byAgeAlone()
	if hourly == 0 {
		return run.allowedAtAll(), resultCapped
	}
	free, at := removal.Budget(run.r.records.recent(run.o), hourly, run.o.Now())
	if free > 0 {
		return min(free, run.allowedAtAll()), resultCapped
	}
	run.o.LookAgain(at)
	if run.outcome.trigger == image.RemovedAge {
		return 0, resultAgeCapped
	}
	return 0, run.outcome.result // the run has reached its goal
}

// byAgeAlone returns how many images may be removed in an hour while only their age asks for it; 0 if
// something else asks for it, too.
func (run *Run) byAgeAlone() int {
	if p := run.r.target.plan; run.asked != nil || p.NeedBytes > 0 || p.NeedInodes > 0 {
		return 0
	}
	return removal.ByAge(len(run.pass.inv.Images), run.r.records.recent(run.o), run.o.Config.Images.AgeRemovalsPerHourPercent)
}

// capped is the condition that the hourly cap is reached.
const capped = "capped"

func (run *Run) allowedAtAll() int {
	recent := run.r.records.recent(run.o)
	hourly := removal.Hourly(run.o.Config.Images.MaxRemovalsPerHour, len(run.pass.inv.Images), recent)
	free, at := removal.Budget(recent, hourly, run.o.Now())
	if free > 0 {
		run.r.bookCap(false, "")
		run.o.Conditions.End(capped, "removals go on: the hourly cap has room again")
		return free
	}
	run.o.LookAgain(at)
	run.r.bookCap(true, fmt.Sprintf("%d removals of the last hour count, and %d are allowed (%s); on at %s or later",
		len(recent), hourly, run.o.Config.Images.MaxRemovalsPerHour, at.Format(time.RFC3339)))
	run.o.Conditions.Begin(capped, slog.LevelWarn, "removals stop: the hourly cap is reached",
		"reason", "maxRemovalsPerHour", "cap", hourly, "until", at)
	return 0
}

// interrupted ends the run for a reason that is no image's fault. If an image were blamed, others would
// be removed in its place.
func (run *Run) interrupted(err error) verdict {
	run.outcome.err, run.outcome.result = err, resultIncomplete
	return stop
}

// gone drops an image that no longer exists.
func (p *pass) gone(id string) {
	p.inv.Images = slices.DeleteFunc(p.inv.Images, func(i inventory.Image) bool { return i.ID == id })
}

// stays keeps an image of the plan that turned out to be needed. It marks the image as used, so that
// this pass does not plan its removal again. If pods want the image, the plans know that by themselves,
// and also when it ends.
func (run *Run) stays(l leaving, why string) {
	l.staysFor(why)
	i := l.image
	for n := range run.pass.inv.Images {
		here := &run.pass.inv.Images[n]
		if here.ID == i.ID && run.o.Pods.Keep(*here, run.o.LastUse.Image(i.ID).Arrived) == "" {
			here.UsedBy = []string{why}
		}
	}
	run.r.metrics.spared.Inc()
	run.asked.report(run, page.ReclaimEvent{Event: "kept", ID: i.ID, References: i.References, Reason: why})
	run.o.Log.Info("image kept by the last check", "image", i.ID, "references", i.References, "reason", why)
}

// measure measures what the removal of images has freed, and records and logs it. What they freed
// together is divided by their computed sizes.
func (run *Run) measure(ctx context.Context, gone []leaving, before watermark.Measured) {
	run.firstRemovalDone()
	r, now, f := run.r, run.o.Now(), run.r.target.Filesystem
	var all image.Decision
	for _, l := range gone {
		all.FreesBytes, all.FreesInodes = all.FreesBytes+l.FreesBytes, all.FreesInodes+l.FreesInodes
		e := run.o.entry(l.Decision)
		if e.Time = now; run.o.counts(e) {
			r.records.removals = append(r.records.removals, now)
		}
	}
	total := run.o.Disks.Removed(ctx, f, before, all)
	run.outcome.freed += total.Bytes
	run.pace.freed += total.Bytes
	for _, l := range gone {
		run.outcome.removed++
		freed := shareOf(total.Bytes, l.FreesBytes, all.FreesBytes)
		run.asked.report(run, page.ReclaimEvent{Event: "removed", ID: l.ImageID, References: l.image.References, FreedBytes: freed})
		r.metrics.freed(l.Reason, freed)
		line := []any{"image", l.ImageID, "references", l.image.References, "reason", string(l.Reason),
			"detail", l.Detail, "freed_bytes", freed, "computed_bytes", l.FreesBytes, "took_ms", now.Sub(l.begun).Milliseconds(),
			"used_percent", f.UsedPercent(), "available_bytes", f.AvailableBytes, "last_used", lastuse.Text(run.o.LastUse.Image(l.ImageID).LastUsed)}
		if len(gone) > 1 {
			line = append(line, "measured_with", len(gone)-1)
		}
		if total.About {
			line = append(line, "freed", "about; others deleted, too")
		}
		run.o.Log.Info("image removed", line...)
		l.attempt.Removed(&history.Freed{Bytes: freed, Inodes: shareOf(total.Inodes, l.FreesInodes, all.FreesInodes), With: len(gone) - 1})
		run.o.LastUse.Removed(l.Decision, l.image.References, now)
		r.gate.Forget(l.ImageID)
		run.pass.gone(l.ImageID)
	}
	r.gate.RoomAgain()
	run.o.Save()
}

// shareOf returns the part of freed that is due to part of whole.
func shareOf(freed, part, whole uint64) uint64 {
	if part >= whole {
		return freed
	}
	return uint64(float64(freed) * float64(part) / float64(whole))
}

func (run *Run) firstRemovalDone() {
	if run.crossedNS == 0 || run.outcome.removed > 0 {
		return
	}
	took := time.Duration(uint64(run.o.Boot()) - run.crossedNS)
	run.r.metrics.reaction.Observe(took.Seconds())
	run.o.Log.Info("first removal done", "reason", string(run.outcome.trigger), "since_crossing_ms", float64(took.Microseconds())/1e3)
}

func (run *Run) removalFailed(l leaving, err error) {
	d := l.Decision
	if run.pass.hurry || errors.Is(err, inventory.ErrStale) {
		l.attempt.Unknown("")
		run.pass.doubt = true
		run.o.Log.Debug("a removal failed; listing everything again", "image", d.ImageID, "reason", err)
		return
	}
	l.attempt.Failed(err)
	times, wait := run.r.gate.Failed(d.ImageID, run.o.Now(), err)
	if errors.Is(err, inventory.ErrNoSpace) {
		for _, f := range run.r.filesystems {
			f.full, f.fullAt = true, f.AvailableBytes
		}
	}
	run.outcome.failed++
	run.r.metrics.failures.Inc()
	run.o.Log.Warn("image could not be removed; continuing with others", "image", d.ImageID, "reason", "removal failed",
		"error", err, "attempts", times, "next", wait.String())
	run.asked.report(run, page.ReclaimEvent{Event: "failed", ID: d.ImageID, References: run.o.LastUse.Known()[d.ImageID].References, Reason: err.Error()})
}

// End reports how the run ended, and what holds the space now. why is the error that ended the run; nil
// if its plan did. next is when the plans change with time; the zero time if they do not. err is why
// the node could not be read any more.
func (run *Run) End(why error) (next time.Time, err error) {
	if why != nil {
		run.interrupted(why)
	}
	for _, f := range run.r.filesystems {
		f.CountDirty(false, run.o.Now())
	}
	if run.asked != nil {
		return time.Time{}, run.asked.end(run)
	}
	run.say()
	if why != nil {
		return time.Time{}, run.outcome.err // there is no plan
	}
	if run.o.Conditions.Holds(capped) {
		run.allowedAtAll() // ends it once there is room, although nothing may have to go
	}
	next = run.r.planned()
	if run.outcome.err == nil {
		run.r.metrics.decided(run.r.target.plan)
	}
	return next, run.outcome.err
}

// say counts and logs a run. A look that had nothing to do is no run.
func (run *Run) say() {
	end := &run.outcome
	if end.trigger == "" || end.result == resultAgeCapped && end.removed == 0 {
		return
	}
	if end.result == "" {
		end.result = run.r.target.result(end.trigger)
	}
	run.r.last = &page.Run{
		Ended: run.o.Now(), Trigger: string(end.trigger), Result: end.result, Removed: end.removed, Failed: end.failed, FreedBytes: end.freed,
	}
	run.r.metrics.runs.WithLabelValues(end.result).Inc()
	if end.result == resultObserved {
		return
	}
	line := []any{"reason", string(end.trigger), "result", end.result, "images_removed", end.removed, "removals_failed", end.failed,
		"freed_bytes", end.freed, "took_ms", run.o.Now().Sub(end.started).Milliseconds()}
	if f := run.r.target; f != nil { // the filesystem can be gone
		if fact, short := end.short(f); short {
			run.o.Tell(fact)
		}
		line = append(line, "used_percent", f.UsedPercent())
	}
	run.o.Log.Info("reclaim run ended", line...)
}

// result derives the result of a run from its last plan.
func (f *filesystem) result(trigger image.Reason) string {
	switch {
	case f.plan.Hold != nil:
		return resultHold
	case f.plan.NeedBytes > 0 || f.plan.NeedInodes > 0:
		return resultIncomplete
	case f.Believing():
		return resultShortfall
	case trigger == image.RemovedAge:
		return resultAge
	}
	return resultLow
}
