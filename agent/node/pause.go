package node

import (
	"fmt"
	"time"

	"github.com/ebb-agent/ebb/agent/node/events"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/agent/program"
)

// setPause begins a pause, or ends it with nil. One that is over does not begin.
func (p *parts) setPause(pause *state.Pause) {
	p.switches.Pause(pause)
	if p.switches.Paused() == nil {
		p.switches.Pause(nil)
	}
	p.metrics.paused.Set(program.Bool(p.switches.Paused() != nil))
}

// goOn decides anew on what a pause has kept.
func (a *admin) goOn() {
	a.looks.request(0)
	a.workloads.Soon(0)
}

// tellPaused tells people of a pause that has begun.
func (p *parts) tellPaused(pause *state.Pause) {
	why := ""
	if pause.Reason != "" {
		why = ", for " + events.Quote(pause.Reason)
	}
	p.events.Record(events.Fact{Reason: events.Paused, Message: fmt.Sprintf("%s paused ebb until %s%s: nothing is removed",
		whom(pause.By), pause.Until.UTC().Format(time.RFC3339), why)})
}

// tellResumed tells people of a pause that has ended.
func (p *parts) tellResumed(why string) {
	p.events.Record(events.Fact{Reason: events.Resumed, Message: "ebb goes on: " + why})
}

// whom is the name that somebody goes by, in words for others.
func whom(name string) string {
	if name == "" {
		return orNobody(name)
	}
	return events.Quote(name)
}
