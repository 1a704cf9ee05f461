package node

import (
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// wantedPause is how long changes of what pods want are collected before they are saved.
const wantedPause = 5 * time.Second

// openState reads the records, starts ebb's clock from them, and gives each part its own.
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
	a.admin.lookForPauseFile()
	if p := a.switches.Asked(); p != nil {
		a.log.Warn("still paused: nothing is removed", "reason", orNobody(p.By)+" asked for it: "+p.Reason, "until", p.Until)
	}
	return nil
}

// startClock continues ebb's clock. After a reboot it starts a new one, and shifts the records so that
// every age is what it was at the last save.
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

// records returns all that the state file is to hold: each part adds a copy of its records. With all,
// that includes what the file should already have.
func (a *Agent) records(all bool) (r state.Records) {
	r.Meta.Anchor, r.Meta.Saved = a.clock.Anchor(a.bootID), a.now()
	r.Meta.Pause = a.switches.Asked()
	a.lastUse.Save(&r)
	a.pods.Save(&r)
	a.reclaim.Save(&r)
	r.Facts = a.learnt.news(a.rt, all)
	return r
}

// learnt keeps the runtime's facts in the state file.
type learnt struct {
	facts *inventory.Facts // from the file, until a runtime is connected
	saved uint64           // how many of the runtime's changes the file has; 0: write all
}

// connected gives a new runtime the facts that the file has.
func (l *learnt) connected(rt Runtime) {
	if l.facts != nil {
		l.saved, l.facts = rt.Learn(*l.facts), nil
	}
}

// news returns the facts to write; nil if the file is up to date. With all, news returns them in any
// case.
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
