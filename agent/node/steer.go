package node

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/node/reclaim"
	"github.com/ebb-agent/ebb/agent/node/show"
	"github.com/ebb-agent/ebb/agent/node/state"
)

// carryOut serves POST /reclaim. It removes the images of a plan that was shown, and reports each step.
func (a *admin) carryOut(w http.ResponseWriter, r *http.Request) {
	e, err := a.begin(r)
	if err != nil {
		a.reply(w, nil, err)
		return
	}
	control, enc, begun := http.NewResponseController(w), json.NewEncoder(w), false
	for {
		step, more := page.ReclaimEvent{}, false
		select {
		case step, more = <-e.events:
		case <-r.Context().Done(): // the run ends after the current image, or never begins
		}
		switch {
		case more:
			begun = true
			w.Header().Set("Content-Type", "application/x-ndjson")
			_ = enc.Encode(step) // if the client is gone, its context ends
			_ = control.Flush()
			continue
		case !begun && r.Context().Err() == nil:
			a.reply(w, nil, a.refusal(r.Context(), e))
		}
		return
	}
}

// begin checks a request, and gives its errand to the looks.
func (a *admin) begin(r *http.Request) (e *errand, err error) {
	var q page.ReclaimRequest
	if err := body(r, &q); err != nil {
		return nil, err
	}
	if _, _, err := checkPlan(q.PlanRequest); err != nil {
		return nil, err
	}
	e = newErrand(r.Context(), q, caller(r))
	turn := inTurn(r.Context(), a.monitor, func() {
		switch pause := a.switches.Paused(); {
		case !asks(q.PlanRequest): // one with a configuration names none
			err = refuse(http.StatusBadRequest, "give an amount to free or a percentage to reach: thresholds are kept automatically")
		case a.switches.Observe:
			err = refuse(http.StatusConflict, "the agent is in mode observe: it removes nothing until its configuration says mode: enforce")
		case pause != nil:
			err = refuse(http.StatusConflict, "paused %s by %s: resume first", until(pause), orNobody(pause.By))
		case a.rt == nil:
			err = refuse(http.StatusServiceUnavailable, "the images are not known yet: %s", a.missing())
		case !a.looks.take(e):
			err = refuse(http.StatusConflict, "a run that %s asked for is still going on", orNobody(a.looks.errand.By))
		}
	})
	return e, errors.Join(busy(turn), err)
}

func orNobody(name string) string {
	if name == "" {
		return "somebody without a name"
	}
	return name
}

// refusal returns why an errand ended before it began.
func (a *admin) refusal(ctx context.Context, e *errand) error {
	select {
	case no := <-e.refused:
		if !errors.Is(no.err, reclaim.ErrOtherPlan) {
			return refuse(http.StatusServiceUnavailable, "nothing was removed: %v", no.err)
		}
		var v show.View
		if turn := inTurn(ctx, a.monitor, func() { v = a.view(no.inv, a.looks.shown.asked, nil) }); turn != nil {
			return busy(turn)
		}
		p := pagePlan(v, no.plan)
		return &failure{http.StatusConflict, page.Error{Error: no.err.Error(), Plan: &p}}
	default:
		return refuse(http.StatusServiceUnavailable, "nothing was removed: the agent is stopping")
	}
}

// pause serves POST /pause: nothing is removed for a time. A removal that has begun is finished.
func (a *admin) pause(r *http.Request) (any, error) {
	var q page.PauseRequest
	if err := body(r, &q); err != nil {
		return nil, err
	}
	if q.ForSeconds < 1 || q.ForSeconds > int64(pauseMost/time.Second) {
		return nil, refuse(http.StatusBadRequest, "pause for %s seconds: want 1 s to %d days", strconv.FormatInt(q.ForSeconds, 10), pauseMost/(24*time.Hour))
	}
	p := &state.Pause{By: caller(r), Reason: words(q.Reason)}
	saved, err := a.change(r.Context(), func() {
		p.Since = a.now()
		p.Until = p.Since.Add(time.Duration(q.ForSeconds) * time.Second)
		a.setPause(p)
		a.log.Warn("paused: nothing is removed", "reason", orNobody(p.By)+" asked for it: "+p.Reason, "until", p.Until)
		a.tellPaused(p)
	})
	if err != nil {
		return nil, err
	}
	answer := pageOf(p)
	answer.NotSaved = saved
	return answer, nil
}

// resume serves POST /resume: it ends a pause. It does not end that of the pause file.
func (a *admin) resume(r *http.Request) (any, error) {
	var was bool
	var file *state.Pause
	saved, err := a.change(r.Context(), func() {
		was, file = a.switches.Asked() != nil, a.switches.File.Read()
		if was {
			a.setPause(nil)
			if file == nil {
				a.log.Info("resumed", "reason", orNobody(caller(r))+" asked for it")
				a.tellResumed(whom(caller(r)) + " asked for it")
				a.goOn()
				a.stopped = false
			}
		}
		a.lookForPauseFile()
	})
	if err == nil && file != nil {
		err = refuse(http.StatusConflict, "still paused by %s: %s; delete it, or the ConfigMap that it comes from", file.By, file.Reason)
	}
	return page.Resume{WasPaused: was, NotSaved: saved}, err
}

// change calls f under the monitor, and waits until the change is saved. notSaved is why it is not; ""
// if it is.
func (a *admin) change(ctx context.Context, f func()) (notSaved string, err error) {
	var written <-chan error
	if turn := inTurn(ctx, a.monitor, func() {
		f()
		written = a.saver.Saved()
	}); turn != nil {
		return "", busy(turn)
	}
	wait, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	select {
	case err := <-written:
		if err != nil {
			return err.Error(), nil
		}
		return "", nil
	case <-wait.Done():
		return "the state file has not been written yet", nil
	}
}
