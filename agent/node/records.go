package node

import (
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// wantedPause is how long changes of what pods want are collected before they are saved.
const wantedPause = 5 * time.Second

// openState reads the records, starts ebb's clock from them, and gives each to its owner.
func (a *Agent) openState() error {
	r, err := a.saver.Open()
	if err != nil {
		return err
	}
	a.startClock(&r)
	a.lastUse.Restore(a.clock, r)
	a.pods.Restore(r)
	a.reclaim.Restore(r)
	a.learnt.facts = r.Facts
	a.setPause(r.Meta.Pause)
	if p := a.switches.Paused(); p != nil {
		a.log.Warn("still paused: nothing is removed", "reason", orNobody(p.By)+" asked for it: "+p.Reason, "until", p.Until)
	}
	return nil
}

// startClock continues ebb's clock, or after a reboot starts it anew with
// every recorded age as it stood.
func (a *Agent) startClock(r *state.Records) {
	m := &r.Meta
	a.clock = clock.New(m.Anchor, a.bootID, a.sources)
	if m.Anchor.BootID == a.bootID || m.Saved.IsZero() {
		return
	}
	gap := a.now().Sub(m.Saved)
	r.Shift(gap)
	a.log.Info("first start since a reboot; ages continue from the saved state", "off", gap.Round(time.Second).String(), "reason", "reboot")
}

// records asks each owner for a copy of its records: together all that is to be in the file.
func (a *Agent) records(all bool) (r state.Records) {
	r.Meta.Anchor, r.Meta.Saved = a.clock.Anchor(a.bootID), a.now()
	r.Meta.Pause = a.switches.Paused()
	a.lastUse.Save(&r)
	a.pods.Save(&r)
	a.reclaim.Save(&r)
	r.Facts = a.learnt.news(a.rt, all)
	return r
}

// saved takes note of how a save went. What can be written again is for the history, too.
func (a *Agent) saved(err error) {
	a.saver.Done(err)
	if err == nil {
		a.history.Retry()
	}
}

// learnt is what the runtime has found out about what it has.
type learnt struct {
	facts *inventory.Facts // of the file, until there is a runtime
	saved uint64           // of the runtime's changes of it; 0: write all
}

// connected has a runtime go on from what the file has.
func (l *learnt) connected(rt Runtime) {
	if l.facts != nil {
		l.saved, l.facts = rt.Learn(*l.facts), nil
	}
}

// news is what is to be written; nil: what the file has is still so.
func (l *learnt) news(rt Runtime, all bool) (f *inventory.Facts) {
	if all {
		l.saved = 0
	}
	if rt == nil {
		return l.facts
	}
	f, l.saved = rt.Learnt(l.saved)
	return f
}
