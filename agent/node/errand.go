package node

import (
	"cmp"
	"context"
	"errors"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/node/reclaim"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// errand is a run that a client asks for.
type errand struct {
	reclaim.Asked
	ctx     context.Context        // the client's: at its end the run ends after the current image
	refused chan refusal           // at most one; read only if there was no event
	events  chan page.ReclaimEvent // closed at the end
}

// refusal is why nothing was removed.
type refusal struct {
	err  error
	plan reclaim.Answer // the current plan, with reclaim.ErrOtherPlan
	inv  *inventory.Inventory
}

// eventsKept bounds the steps of a run that wait for a slow client. Further steps are dropped, except
// the last one, which has the result: the run does not wait for the client.
const eventsKept = 4096

func newErrand(ctx context.Context, r page.ReclaimRequest, by string) *errand {
	e := &errand{ctx: ctx, refused: make(chan refusal, 1), events: make(chan page.ReclaimEvent, eventsKept+1)}
	e.Asked = reclaim.Asked{Request: r.PlanRequest, Digest: r.Digest, By: by, Report: func(step page.ReclaimEvent) {
		if len(e.events) < eventsKept || step.Event == "ended" { // only the run sends, and it ends once
			e.events <- step
		}
	}}
	return e
}

// take accepts an errand, to be carried out after the current work. It returns false if there is
// another one.
func (l *looks) take(e *errand) bool {
	if l.errand != nil {
		return false
	}
	l.errand = e
	l.want()
	return true
}

// carryOut carries out the errand, if there is one and its client is still there. Then it asks for a
// look, because the thresholds count again.
func (l *looks) carryOut(ctx context.Context) {
	e := l.errand
	if e == nil {
		return
	}
	defer func() {
		l.errand = nil
		close(e.events)
		l.request(0)
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	run := l.reclaim.BeginAsked(&e.Asked)
	err := l.passes(ctx, run, func(inv *inventory.Inventory, atHand bool) (bool, error) {
		work, now, err := run.PlanAsked(inv, atHand)
		if errors.Is(err, reclaim.ErrOtherPlan) {
			e.refused <- refusal{err: err, plan: now, inv: inv}
		}
		return work, err
	})
	err = cmp.Or(err, ctx.Err())
	_, ended := run.End(err)
	err = cmp.Or(err, ended)
	if err != nil && !errors.Is(err, reclaim.ErrOtherPlan) {
		select {
		case e.refused <- refusal{err: err}: // read only if there was no event
		default:
		}
	}
}
