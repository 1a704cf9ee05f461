package reclaim

import (
	"context"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/history"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/node/removal"
	"github.com/ebb-agent/ebb/policy/image"
)

// whyEnds is the reason in the history if the agent stops before the outcome of a removal is known.
const whyEnds = "the agent stopped during the removal"

// whyEarly is the reason if the run ends, and the image gets its names back.
const whyEarly = "the run ended before its turn"

// entries returns the history entries for images that are about to be removed.
func (o *Options) entries(plan []image.Decision, asked *Asked) []page.HistoryEntry {
	list := make([]page.HistoryEntry, len(plan))
	for n, d := range plan {
		list[n] = o.entry(d)
		if asked != nil {
			list[n].By = asked.By
		}
	}
	return list
}

func (o *Options) entry(d image.Decision) page.HistoryEntry {
	known := o.LastUse.Image(d.ImageID)
	return page.HistoryEntry{
		Kind: page.KindImage, ID: d.ImageID, Names: o.LastUse.Known()[d.ImageID].References,
		Rule: string(d.Reason), Reason: string(d.Reason), Detail: d.Detail,
		LastUsed: clock.OrNil(known.LastUsed), Arrived: clock.OrNil(known.Arrived), UsedBy: known.UsedBy, ComputedBytes: d.FreesBytes, ComputedInodes: d.FreesInodes,
	}
}

// counts reports whether a removal uses up the hourly cap.
func (o *Options) counts(e page.HistoryEntry) bool {
	return e.Arrived == nil || removal.Counts(o.Config.Images.MaxRemovalsPerHour, image.Reason(e.Rule), *e.Arrived, e.Time)
}

// booked waits until the history has the images of a group. It stops waiting after a bounded time:
// removals do not depend on it.
func booked(ctx context.Context, run *Run, group []leaving) {
	attempts := make([]*history.Attempt, len(group))
	for n, l := range group {
		attempts[n] = l.attempt
	}
	run.o.Outside(func() { run.r.gate.History.Durable(ctx, attempts...) })
}

// staysFor records in the history why an image stays; with "" the caller does.
func (l *leaving) staysFor(why string) {
	switch {
	case why == "":
	case l.names != nil:
		l.attempt.PutBack(why)
	default:
		l.attempt.Stays(why)
	}
}

// bookHold records in the history that a hold begins, changes or ends.
func (r *Reclaimer) bookHold(f *filesystem, outcome, reason string) {
	e := page.HistoryEntry{Kind: page.KindHold, Names: []string{f.Path}, Outcome: outcome, Rule: string(image.KeptHold), Reason: reason}
	if h := f.plan.Hold; h != nil {
		e.ComputedBytes, e.ComputedInodes, e.Detail = h.NeedBytes, h.NeedInodes, heldBytes(h)
		if h.Inodes && !h.Bytes {
			e.Detail = heldInodes(h)
		}
	}
	r.gate.History.Refused(e)
}

// holdReason describes the beginning of a hold, or the change to other resources or images.
func holdReason(was, is *image.Hold) string {
	what := "bytes"
	switch {
	case is.Bytes && is.Inodes:
		what = "bytes and inodes"
	case is.Inodes:
		what = "inodes"
	}
	if !is.Final() {
		what += ", as far as images can be judged"
	}
	if was == nil {
		return "the hold begins: " + what
	}
	return "the hold changes: " + what
}

// bookCap records in the history when the hourly cap stops removals, and when it allows them again.
func (r *Reclaimer) bookCap(reached bool, detail string) {
	if r.o.Conditions.Holds(capped) == reached {
		return
	}
	e := page.HistoryEntry{Kind: page.KindCap, Rule: "maxRemovalsPerHour", Reason: "the hourly cap is reached", Detail: detail}
	if !reached {
		e.Outcome, e.Reason = page.OutcomeEnded, "the hourly cap has room again"
	}
	r.gate.History.Refused(e)
}
