package reclaim

import (
	"errors"
	"slices"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// ErrOtherPlan is why nothing was removed: the plan is another one than the one that was shown.
var ErrOtherPlan = errors.New("the plan has changed since it was shown")

// Asked is what somebody asks a run for. It goes through the same gate, caps and last looks as
// any other.
type Asked struct {
	Request page.PlanRequest
	Digest  string // of the plan that they have seen
	By      string // who, as they say
	// Report is called with each step, under the lock; it must not wait.
	Report func(page.ReclaimEvent)

	goal image.Size      // what is to be available at the end
	seen map[string]bool // the images of the plan: no other one goes
}

// Answer is a plan for a request, and where the filesystem is that it is about.
type Answer struct {
	image.Asked
	Path   string
	Inodes uint64 // that the filesystem has, in use or not; 0: no fixed number
}

// Question has all that an answer rests on. None of that changes any more: it is answered without
// the lock. False: the images have not been found yet.
type Question func() (Answer, bool)

func unknown() (Answer, bool) { return Answer{}, false }

// Advice answers what would go, and why. It changes nothing.
type Advice struct{ r *Reclaimer }

// Advice is this Reclaimer's.
func (r *Reclaimer) Advice() Advice { return Advice{r} }

// Why tells the story of an image, on the filesystem that reclaim works, or worked last, on; false
// if it is not there. It is called without the lock, as a [Question] is answered.
func (a Advice) Why(inv *inventory.Inventory) func(id string) (image.Explanation, bool) {
	if a.r.target == nil {
		return func(string) (image.Explanation, bool) { return image.Explanation{}, false }
	}
	s, now := a.r.snapshot(a.r.target, inv), a.r.o.Now()
	return func(id string) (image.Explanation, bool) { return image.Why(s, id, now) }
}

// Would is the plan with another policy and other rules: nothing is changed by it.
func (a Advice) Would(inv *inventory.Inventory, p image.Policy, keep image.KeepRules) Question {
	return a.decides(inv, func(s image.Snapshot) image.Snapshot {
		s.Policy, s.Hold, s.Images = p, nil, slices.Clone(s.Images)
		for n := range s.Images {
			s.Images[n].Keep = keep.Match(s.Images[n].References)
		}
		return s
	})
}

// Now is the plan that the thresholds ask for.
func (a Advice) Now(inv *inventory.Inventory) Question {
	return a.decides(inv, func(s image.Snapshot) image.Snapshot { return s })
}

// decides asks for the plan of a changed snapshot.
func (a Advice) decides(inv *inventory.Inventory, change func(image.Snapshot) image.Snapshot) Question {
	f := a.r.target
	if f == nil {
		return unknown
	}
	a.readNow(f)
	s, now, path := a.r.snapshot(f, inv), a.r.o.Now(), f.Path
	return func() (Answer, bool) {
		plan, most := image.Decide(change(s), now), image.Ask(s, image.Size{}, now).Most
		return Answer{image.Asked{Plan: plan, Frees: plan.Frees(), Most: most}, path, s.Disk.Inodes}, true
	}
}

// Ask is the plan for a request.
func (a Advice) Ask(inv *inventory.Inventory, q page.PlanRequest) Question {
	if len(a.r.filesystems) == 0 {
		return unknown
	}
	f := a.r.filesystems[0]
	a.readNow(f)
	s, now, need, path := a.r.snapshot(f, inv), a.r.o.Now(), needOf(q, f.Believed()), f.Path
	return func() (Answer, bool) { return Answer{image.Ask(s, need, now), path, s.Disk.Inodes}, true }
}

// readNow takes a new reading; without an answer the last one counts.
func (a Advice) readNow(f *filesystem) {
	if !f.Believing() {
		_ = a.r.o.Disks.Read(f.Filesystem)
	}
}

// needOf is what has to become available.
func needOf(q page.PlanRequest, d image.Disk) image.Size {
	need := image.Size{Bytes: q.FreeBytes, Inodes: q.FreeInodes}
	if q.ToPercent != nil {
		need.Bytes = d.BytesTo(*q.ToPercent)
	}
	if q.ToInodesPercent != nil {
		need.Inodes = d.InodesTo(*q.ToInodesPercent)
	}
	return need
}

// BeginAsked makes a run that somebody asks for. Until it has ended, plans are its.
func (r *Reclaimer) BeginAsked(a *Asked) *Run {
	return &Run{r: r, o: r.o, asked: a}
}

// PlanAsked begins a pass as Plan does. In the first one the plan has to be the one that was
// shown: with ErrOtherPlan comes the one that is.
func (run *Run) PlanAsked(inv *inventory.Inventory, atHand bool) (work bool, now Answer, err error) {
	run.pass = pass{inv: inv, listed: atHand}
	r, a := run.r, run.asked
	if a.seen == nil {
		var known bool
		if now, known = r.Advice().Ask(inv, a.Request)(); !known || now.Digest() != a.Digest {
			return false, now, ErrOtherPlan
		}
		a.seen = make(map[string]bool, len(now.Remove))
		for _, d := range now.Remove {
			a.seen[d.ImageID] = true
		}
		disk := r.filesystems[0].Believed()
		need := needOf(a.Request, disk)
		a.goal = disk.Available().Add(need)
		r.asked, run.outcome.trigger, run.outcome.started = a, image.RemovedAsked, r.o.Now()
		r.o.Log.Info("reclaim run begun", "reason", string(image.RemovedAsked), "by", a.By, "images", len(a.seen), "need_bytes", need.Bytes, "need_inodes", need.Inodes)
		a.report(run, page.ReclaimEvent{Event: "begun"})
	}
	return r.plan(inv), now, nil
}

// plan plans towards what is asked for: with what was shown, whatever came since.
func (a *Asked) plan(r *Reclaimer, inv *inventory.Inventory) (work bool) {
	f := r.filesystems[0]
	f.plan = image.Ask(r.snapshot(f, inv), a.goal.Sub(f.Believed().Available()), r.o.Now()).Plan
	f.plan.Remove = slices.DeleteFunc(f.plan.Remove, func(d image.Decision) bool { return !a.seen[d.ImageID] })
	r.target = f
	return len(f.plan.Remove) > 0
}

// report tells who asked for the run of a step; nobody did if a is nil.
func (a *Asked) report(run *Run, e page.ReclaimEvent) {
	if a == nil {
		return
	}
	e.Time, e.Removed, e.Of = run.o.Now(), run.outcome.removed, len(a.seen)
	a.Report(e)
}

// end says how it went. The thresholds count again from now on.
func (a *Asked) end(run *Run) error {
	if run.r.asked == nil {
		return nil // it never began
	}
	run.r.asked = nil
	end := &run.outcome
	switch p := run.r.target.plan; {
	case end.result != "":
	case end.failed > 0:
		end.result = resultIncomplete
	case p.NeedBytes > 0 || p.NeedInodes > 0:
		end.result = resultShort
	default:
		end.result = resultDone
	}
	run.say()
	why := ""
	if end.err != nil {
		why = end.err.Error()
	}
	a.report(run, page.ReclaimEvent{Event: "ended", Result: end.result, FreedBytes: end.freed, Reason: why})
	return end.err
}

// LastRun is the latest run that removed something or, in mode observe, would have; nil: none yet.
func (r *Reclaimer) LastRun() *page.Run { return r.last }
