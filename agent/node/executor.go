package node

import (
	"context"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

const (
	// failureFirst and failureMost bound how long an image whose removal
	// failed is left alone.
	failureFirst = 30 * time.Second
	failureMost  = time.Hour

	// capWindow is what maxRemovalsPerHour counts over.
	capWindow = time.Hour

	// showDeadline bounds the wait for one removal to show on the disk.
	showDeadline = 3 * time.Second
)

// failure remembers something whose removal failed.
type failure struct {
	times int
	until time.Time
}

// again is the failure after one more at that time, and how long the thing is left
// alone for it: each time twice as long.
func (f failure) again(now time.Time) (failure, time.Duration) {
	wait := min(failureFirst<<min(f.times, 10), failureMost)
	return failure{times: f.times + 1, until: now.Add(wait)}, wait
}

// Results of a run, as the metric has them.
const (
	resultLow        = "low_reached" // the disk is at or below its low line
	resultAge        = "age_done"    // what had reached its maximum age is gone
	resultHold       = "hold"        // all that may go is gone, and it is not enough
	resultCapped     = "capped"      // maxRemovalsPerHour is used up
	resultShortfall  = "shortfall"   // the low line is reached by what was computed, and the disk does not show it yet
	resultIncomplete = "incomplete"  // removals failed or images came into use; tried again later
	resultObserved   = "observed"    // mode observe: only said
)

// whyChanged is why an image stays that is not as the plan knew it.
const whyChanged = "it has changed since the plan was made"

// verdict says how the look goes on after a plan was executed.
type verdict bool

const (
	goOn verdict = true  // read the world again and decide anew
	stop verdict = false // the run is over
)

// run is one reclaim run: all passes of one look.
type run struct {
	crossedNS uint64
	trigger   image.Reason
	started   time.Time
	removed   int
	freed     uint64
	failed    int
	group     int                  // images that went together the last time; 0: not all of them did
	inv       *inventory.Inventory // what this pass plans from, less what went and what turned out to be needed
	result    string
	err       error // the node could not be read, or the runtime went away
	hurry     bool  // this pass may plan from an inventory that was at hand
	listed    bool  // the runtime has told of nothing since it listed its images
	doubt     bool  // something failed in it: it may be the runtime, not the image
}

// begin takes the target's plan into the run. From now on its low line counts,
// not the high one; news is whether it did not before.
func (r *run) begin(s *store, now time.Time) (news bool) {
	p, was := s.plan, *s.kept
	s.kept.ReclaimingBytes = s.kept.ReclaimingBytes || p.NeedBytes > 0
	s.kept.ReclaimingInodes = s.kept.ReclaimingInodes || p.NeedInodes > 0
	if r.started.IsZero() {
		r.started = now
	}
	for _, d := range p.Remove {
		if r.trigger == "" || d.Reason == image.RemovedThreshold {
			r.trigger = d.Reason
		}
	}
	return s.kept.ReclaimingBytes != was.ReclaimingBytes || s.kept.ReclaimingInodes != was.ReclaimingInodes
}

// gone is for an image that is there no more.
func (r *run) gone(id string) {
	r.inv.Images = slices.DeleteFunc(r.inv.Images, func(i inventory.Image) bool { return i.ID == id })
}

// needed is for an image that turned out to be needed: this pass does not plan with it again.
func (r *run) needed(id, why string) {
	for n := range r.inv.Images {
		if i := &r.inv.Images[n]; i.ID == id {
			i.UsedBy = []string{why}
		}
	}
}

// interrupted ends the run for a reason that lies in no image. Were the image
// blamed, others would go in its place.
func (r *run) interrupted(err error) verdict {
	r.err, r.result = err, resultIncomplete
	return stop
}

// execute carries out the target's plan group by group. After each the plan is made anew, from
// the same inventory and the latest reading: others write and delete meanwhile, and a first
// reading can be wrong for a moment (ext4 counts blocks twice while it allocates them). It is
// the one door through which every image goes; dead containers have theirs in reaper.go.
func (a *Agent) execute(ctx context.Context, r *run) verdict {
	if a.cfg.Mode == config.ModeObserve {
		r.trigger, r.result = a.target.plan.Remove[0].Reason, resultObserved
		a.sayPlan()
		return stop
	}
	for first := true; first || a.planAgain(r.inv); first = false {
		a.alive()
		if ctx.Err() != nil {
			return stop
		}
		if r.begin(a.target, a.clock.now()) {
			a.save()
		}
		free, at := a.removalBudget()
		if free == 0 {
			r.result = resultCapped
			a.alarms.sooner(alarmRetry, at)
			a.said.once(a.log, "capped", levelWarn, "removals stop: the hourly cap is reached",
				"reason", "maxRemovalsPerHour", "cap", a.cfg.Images.MaxRemovalsPerHour, "until", at)
			return stop
		}
		a.said.clear(a.log, "capped", "removals go on: the hourly cap has room again")
		plan := a.target.plan.Remove
		plan = plan[:min(groupSize(r), free, len(plan))]
		spared, v := a.removeGroup(ctx, r, plan)
		if v == stop {
			return stop
		}
		if r.doubt || spared == len(plan) {
			return goOn // look at everything before the next try: the disk goes up and down
		}
	}
	return goOn
}

// planAgain plans anew from an inventory that is at hand.
func (a *Agent) planAgain(inv *inventory.Inventory) (work bool) {
	for _, s := range a.stores {
		if now, err := a.read(s.filesystem); err == nil {
			s.reading = now
		}
	}
	return a.plan(inv)
}

// removalBudget returns how many removals the cap still allows, and when it
// will allow more.
func (a *Agent) removalBudget() (free int, at time.Time) {
	m, now := &a.rec.Meta, a.clock.now()
	recent := m.Removals[:0]
	for _, t := range m.Removals {
		if now.Sub(t) < capWindow {
			recent = append(recent, t)
		}
	}
	m.Removals = recent
	if len(recent) == 0 {
		return a.cfg.Images.MaxRemovalsPerHour, now
	}
	return max(0, a.cfg.Images.MaxRemovalsPerHour-len(recent)), recent[0].Add(capWindow)
}

// removed measures what the removal of images has freed and says so. What they freed
// together is each one's by what was computed.
func (a *Agent) removed(ctx context.Context, r *run, gone []leaving, before measured) {
	a.firstRemovalDone(r)
	now := a.clock.now()
	var all image.Decision
	for _, l := range gone {
		all.FreesBytes, all.FreesInodes = all.FreesBytes+l.FreesBytes, all.FreesInodes+l.FreesInodes
		a.rec.Meta.Removals = append(a.rec.Meta.Removals, now)
	}
	after, settled := a.measure(ctx, before, all)
	o := outcomeOf(all, before, after)
	r.removed += len(gone)
	r.freed += o.bytes
	a.target.filling.reclaimed(o.bytes, o.inodes)
	for _, l := range gone {
		freed := shareOf(o.bytes, l.FreesBytes, all.FreesBytes)
		a.metrics.removed(l.Reason, freed)
		line := []any{"image", l.ImageID, "references", l.image.References, "reason", string(l.Reason),
			"detail", l.Detail, "freed_bytes", freed, "computed_bytes", l.FreesBytes, "took_ms", now.Sub(l.begun).Milliseconds(),
			"used_percent", after.UsedPercent(), "available_bytes", after.AvailableBytes, "last_used", lastUsedText(a.rec.Images[l.ImageID].LastUsed)}
		if len(gone) > 1 {
			line = append(line, "measured_with", len(gone)-1)
		}
		if o.about {
			line = append(line, "freed", "about; others deleted, too")
		}
		a.log.Info("image removed", line...)
		a.noteRemoved(l, now)
		a.forget(l.ImageID)
		r.gone(l.ImageID)
	}
	if f := a.target.filesystem; settled {
		a.shown(f, true)
	} else if !f.believed.none() || after.cameFree(before) < enough(all) {
		// Unless the agent is to stop, or the filesystem is there no more.
		if _, err := a.read(f); err == nil && ctx.Err() == nil {
			a.believe(f, all, before, after)
		}
	}
}

// shareOf is part's share of what whole has freed.
func shareOf(freed, part, whole uint64) uint64 {
	if part >= whole {
		return freed
	}
	return uint64(float64(freed) * float64(part) / float64(whole))
}

// forget is for an image that was removed: should it be listed nevertheless, somebody
// has pulled it meanwhile, and it has only just come.
func (a *Agent) forget(id string) {
	delete(a.rec.Images, id)
	delete(a.failures, id)
	delete(a.away, id)
}

// stays is for an image that the plan removes and that is needed.
func (a *Agent) stays(r *run, i inventory.Image, why string) {
	r.needed(i.ID, why)
	a.metrics.spared.Inc()
	a.log.Info("image stays after all", "image", i.ID, "references", i.References, "reason", why)
}

func lastUsedText(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.Format(time.RFC3339Nano)
}

// nowKept looks at a fresh reading of one image for a reason to keep it that
// the plan could not know. "" lets it go. Pods are those that were read last.
func (a *Agent) nowKept(i inventory.Image) string {
	switch {
	case len(i.UsedBy) > 0:
		return "in use by " + i.UsedBy[0]
	case i.Pinned:
		return "pinned by the runtime"
	case i.Sandbox:
		return "the sandbox image"
	case !i.Updated.Equal(a.known[i.ID].Updated):
		return whyChanged
	}
	if rule := a.keep.Match(i.References); rule != "" {
		return "kept by rule " + rule
	}
	if why := a.podsKeep(i); why != "" {
		return why
	}
	return a.usedSince(i)
}

// usedSince asks the kernel whether an image was used since the plan was made; "" if not.
func (a *Agent) usedSince(i inventory.Image) string {
	if a.probes == nil {
		return ""
	}
	planned := a.rec.Images[i.ID]
	for _, l := range i.Layers {
		key, ok := a.layers.key(l)
		if !ok {
			continue
		}
		ns, ok, err := a.probes.LastUse(key)
		if err != nil {
			return "its last use cannot be read: " + err.Error()
		}
		if used := a.clock.atBoot(ns); ok && used.After(latest(planned.LastUsed, planned.Arrived)) {
			planned.LastUsed = used
			a.rec.Images[i.ID] = planned
			return "used since the plan was made"
		}
	}
	return ""
}

func (a *Agent) removalFailed(r *run, d image.Decision, err error) {
	if r.hurry {
		r.doubt = true
		a.log.Debug("a removal failed; looking at everything anew", "image", d.ImageID, "reason", err)
		return
	}
	f, wait := a.failures[d.ImageID].again(a.clock.now())
	a.failures[d.ImageID] = f
	r.failed++
	a.metrics.removalFailures.Inc()
	a.log.Warn("image could not be removed; going on with others", "image", d.ImageID, "reason", "removal failed",
		"error", err, "attempts", f.times, "next", wait.String())
}

func (a *Agent) firstRemovalDone(r *run) {
	if r.crossedNS == 0 || r.removed > 0 {
		return
	}
	took := time.Duration(uint64(a.clock.boot()) - r.crossedNS)
	a.metrics.reaction.Observe(took.Seconds())
	a.log.Info("first removal done", "reason", string(r.trigger), "since_crossing_ms", float64(took.Microseconds())/1e3)
}

// runEnded counts a run and says how it went. A look that had nothing to do is
// no run.
func (a *Agent) runEnded(r *run) {
	if r.trigger == "" {
		return
	}
	if r.result == "" {
		r.result = a.resultOf(r)
	}
	a.metrics.runs.WithLabelValues(string(r.trigger), r.result).Inc()
	if r.result == resultObserved {
		return
	}
	a.log.Info("reclaim run ended", "reason", string(r.trigger), "result", r.result, "images_removed", r.removed,
		"removals_failed", r.failed, "freed_bytes", r.freed, "used_percent", a.target.UsedPercent(),
		"took_ms", a.clock.now().Sub(r.started).Milliseconds())
}

// resultOf reads the result off the run's last plan.
func (a *Agent) resultOf(r *run) string {
	switch {
	case a.target.plan.Hold != nil:
		return resultHold
	case a.target.plan.NeedBytes > 0 || a.target.plan.NeedInodes > 0:
		return resultIncomplete
	case !a.target.believed.none():
		return resultShortfall
	case r.trigger == image.RemovedAge:
		return resultAge
	}
	return resultLow
}

func gained(before, after uint64) uint64 {
	if after < before {
		return 0
	}
	return after - before
}
