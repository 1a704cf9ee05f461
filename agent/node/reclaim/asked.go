package reclaim

import (
	"context"
	"errors"
	"slices"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// ErrOtherPlan is returned if the plan differs from the one that was shown. Then nothing was removed.
var ErrOtherPlan = errors.New("the plan has changed since it was shown")

// Asked is a run that a client asks for. It passes the same gate, caps and last looks as any other run.
type Asked struct {
	Request page.PlanRequest
	Digest  string // of the plan that the client has seen
	By      string // the name of the client, as it claims
	// Report is called with each step, under the lock; it must not wait.
	Report func(page.ReclaimEvent)

	goal image.Size      // how much is to be available at the end; 0 of what was not asked for
	seen map[string]bool // the images of that plan: no others are removed
}

// Answer is the plan for a request, with the filesystem that it is for.
type Answer struct {
	image.Asked
	Path   string
	Inodes uint64 // of the filesystem, in use or not; 0: no fixed number
}

// Question computes an answer, from data that does not change any more: call it without the lock. It
// returns false if the images have not been found yet.
type Question func() (Answer, bool)

func unknown() (Answer, bool) { return Answer{}, false }

// Advice answers what would be removed, and why. It changes nothing.
type Advice struct{ r *Reclaimer }

// Advice returns the Advice of this Reclaimer.
func (r *Reclaimer) Advice() Advice { return Advice{r} }

// Why returns a function that explains the decision about an image, on the filesystem that reclaim
// works on, or last worked on. The function returns false if the image is not there. Call it without
// the lock, as a [Question].
func (a Advice) Why(inv *inventory.Inventory) func(id string) (image.Explanation, bool) {
	if a.r.target == nil {
		return func(string) (image.Explanation, bool) { return image.Explanation{}, false }
	}
	s, now := a.r.snapshot(a.r.target, inv), a.r.o.Now()
	return func(id string) (image.Explanation, bool) { return image.Why(s, id, now) }
}

// Would asks for the plan with another policy and other rules. It does not change the current ones.
func (a Advice) Would(inv *inventory.Inventory, p image.Policy, keep image.KeepRules) Question {
	return a.decides(inv, func(s image.Snapshot) image.Snapshot {
		s.Policy, s.Hold, s.Images = p, nil, slices.Clone(s.Images)
		for n := range s.Images {
			s.Images[n].Keep = keep.Match(s.Images[n].References)
		}
		return s
	})
}

// Now asks for the plan by the current thresholds.
func (a Advice) Now(inv *inventory.Inventory) Question {
	return a.decides(inv, func(s image.Snapshot) image.Snapshot { return s })
}

// decides asks for the plan of a snapshot that change has modified.
func (a Advice) decides(inv *inventory.Inventory, change func(image.Snapshot) image.Snapshot) Question {
	f := a.r.target
	if f == nil {
		return unknown
	}
	a.r.o.Disks.Refresh(f.Filesystem)
	s, now, path := a.r.snapshot(f, inv), a.r.o.Now(), f.Path
	return func() (Answer, bool) {
		plan, most := image.Decide(change(s), now), image.Ask(s, image.Size{}, now).Most
		return Answer{image.Asked{Plan: plan, Frees: plan.Frees(), Most: most}, path, s.Disk.Inodes}, true
	}
}

// Ask asks for the plan of a request.
func (a Advice) Ask(inv *inventory.Inventory, q page.PlanRequest) Question {
	if len(a.r.filesystems) == 0 {
		return unknown
	}
	f := a.r.filesystems[0]
	a.r.o.Disks.Refresh(f.Filesystem)
	s, now, need, path := a.r.snapshot(f, inv), a.r.o.Now(), needOf(q, f.Believed()), f.Path
	return func() (Answer, bool) { return Answer{image.Ask(s, need, now), path, s.Disk.Inodes}, true }
}

// needOf returns how much has to become available for a request.
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

// BeginAsked makes a run that a client asks for. From its first plan until its end, every plan is made
// for that request.
func (r *Reclaimer) BeginAsked(a *Asked) *Run {
	return &Run{r: r, o: r.o, asked: a}
}

// PlanAsked begins a pass, as Plan does. In the first pass the plan has to be the one that was shown.
// If it is not, the error is ErrOtherPlan, and now is the current plan.
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
		if a.goal = disk.Available().Add(need); need.Bytes == 0 {
			a.goal.Bytes = 0
		}
		if need.Inodes == 0 {
			a.goal.Inodes = 0
		}
		r.asked, run.outcome.trigger, run.outcome.started = a, image.RemovedAsked, r.o.Now()
		r.o.Log.Info("reclaim run begun", "reason", string(image.RemovedAsked), "by", a.By, "images", len(a.seen), "need_bytes", need.Bytes, "need_inodes", need.Inodes)
		a.report(run, page.ReclaimEvent{Event: "begun"})
	}
	return r.plan(inv), now, nil
}

// plan plans towards the goal of the request. It removes only images of the plan that was shown,
// whatever has changed since.
func (a *Asked) plan(r *Reclaimer, inv *inventory.Inventory) (work bool) {
	f := r.filesystems[0]
	f.plan = image.Ask(r.snapshot(f, inv), a.goal.Sub(f.Believed().Available()), r.o.Now()).Plan
	f.plan.Remove = slices.DeleteFunc(f.plan.Remove, func(d image.Decision) bool { return !a.seen[d.ImageID] })
	r.target = f
	return len(f.plan.Remove) > 0
}

// report sends a step to the client. In a run that no client asked for, a is nil, and report does
// nothing.
func (a *Asked) report(run *Run, e page.ReclaimEvent) {
	if a == nil {
		return
	}
	e.Time, e.Removed, e.Of = run.o.Now(), run.outcome.removed, len(a.seen)
	a.Report(e)
}

// end reports the result of the run. From now on the thresholds count again.
func (a *Asked) end(run *Run) error {
	if run.r.asked == nil {
		return nil // it never began
	}
	run.r.asked = nil
	end := &run.outcome
	switch f := run.r.target; {
	case end.result != "":
	case end.failed > 0 || f == nil: // the filesystem is gone
		end.result = resultIncomplete
	case f.plan.NeedBytes > 0 || f.plan.NeedInodes > 0:
		end.result = resultShort
	default:
		end.result = resultDone
	}
	run.say()
	why := ""
	switch {
	case errors.Is(end.err, context.Canceled): // nobody reads this if the caller went away
		why = "the agent is stopping"
	case end.err != nil:
		why = end.err.Error()
	}
	a.report(run, page.ReclaimEvent{Event: "ended", Result: end.result, FreedBytes: end.freed, Reason: why})
	return end.err
}

// LastRun is the latest run that removed something or, in mode observe, would have; nil: none yet.
func (r *Reclaimer) LastRun() *page.Run { return r.last }
