package node

import (
	"fmt"
	"time"

	"github.com/ebb-agent/ebb/agent/node/events"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/agent/program"
)

// setPause begins a pause; nil ends it. A pause that has already expired does not begin.
func (p *parts) setPause(pause *state.Pause) {
	p.switches.Pause(pause)
	if p.switches.Paused() == nil {
		p.switches.Pause(nil)
	}
	p.metrics.paused.Set(program.Bool(p.switches.Paused() != nil))
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
	p.events.Record(events.Fact{Reason: events.Paused, Message: fmt.Sprintf("%s paused ebb until %s%s: nothing is removed",
		whom(pause.By), pause.Until.UTC().Format(time.RFC3339), why)})
}

// tellResumed posts the Event that a pause has ended, and why.
func (p *parts) tellResumed(why string) {
	p.events.Record(events.Fact{Reason: events.Resumed, Message: "ebb goes on: " + why})
}

// whom returns the name of a caller, quoted for an Event.
func whom(name string) string {
	if name == "" {
		return orNobody(name)
	}
	return events.Quote(name)
}
