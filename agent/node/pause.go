package node

import (
	"fmt"
	"time"

	"github.com/ebb-agent/ebb/agent/node/events"
	"github.com/ebb-agent/ebb/agent/node/state"
)

// setPause begins a pause; nil ends it. A pause that has already expired does not begin.
func (p *parts) setPause(pause *state.Pause) {
	p.switches.Pause(pause)
	if p.switches.Asked() == nil {
		p.switches.Pause(nil)
	}
}

// lookForPauseFile reports that the pause file came or went. The gate reads the file itself before each
// removal: only the words, and going on after it, wait for this.
func (a *admin) lookForPauseFile() {
	pause := a.switches.File.Read()
	switch {
	case pause != nil && !a.stopped:
		a.log.Warn("paused: nothing is removed", "reason", pause.By+" exists: "+pause.Reason)
		a.tellPaused(pause)
	case pause == nil && a.stopped:
		a.log.Info("the pause file is gone", "reason", "pause")
		if a.switches.Asked() == nil {
			a.tellResumed("the pause file is gone")
			a.goOn()
		}
	}
	a.stopped = pause != nil
}

// goOn asks for new decisions after a pause.
func (a *admin) goOn() {
	a.looks.request(0)
	a.workloads.Soon(0)
}

// tellPaused posts the Event that a pause has begun.
func (p *parts) tellPaused(pause *state.Pause) {
	why := ""
	if pause.Reason != "" {
		why = ", for " + events.Quote(pause.Reason)
	}
	p.events.Record(events.Fact{Reason: events.Paused, Message: fmt.Sprintf("%s paused ebb %s%s: nothing is removed",
		whom(pause.By), until(pause), why)})
}

// tellResumed posts the Event that a pause has ended, and why.
func (p *parts) tellResumed(why string) {
	p.events.Record(events.Fact{Reason: events.Resumed, Message: "ebb goes on: " + why})
}

// until formats the end of a pause. That of the pause file has none.
func until(p *state.Pause) string {
	if p.Until.IsZero() {
		return "as long as it exists"
	}
	return "until " + p.Until.UTC().Format(time.RFC3339)
}

// whom returns the name of a caller, quoted for an Event.
func whom(name string) string {
	if name == "" {
		return orNobody(name)
	}
	return events.Quote(name)
}
