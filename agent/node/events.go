package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// runtimeUp takes over a fresh connection.
func (a *Agent) runtimeUp(ctx context.Context, rt Runtime) {
	a.rt, a.unmended = rt, true
	if f := a.rec.Facts; f != nil {
		a.rec.Facts, a.factsSaved = nil, rt.Learn(*f)
	}
	a.log.Info("container runtime connected", "socket", a.cfg.Runtime.Socket, "version", rt.Version(), "reason", "start")
	a.look(ctx, 0)
	a.tidy(ctx)
}

// runtimeEvent notes an event. Uses are stamped at once; everything else waits
// for the burst to pass.
func (a *Agent) runtimeEvent(e inventory.Event) {
	now, spacing := a.clock.now(), eventSpacing
	at := a.happened(e, now)
	a.told = true
	if e.Kind != inventory.EventDown {
		a.holdsMayEnd()
	}
	switch e.Kind {
	case inventory.EventDown:
		a.brokeOff, a.unheard, a.heard = true, true, time.Time{}
		a.metrics.runtimeUp.Set(0)
		a.setReady("the container runtime's event stream broke off: " + e.Err.Error())
		a.said.once(a.log, "events", slog.LevelWarn, "runtime events broke off; reconnecting", "error", e.Err)
		return
	case inventory.EventResync:
		a.metrics.runtimeUp.Set(1)
		a.said.clear(a.log, "events", "runtime events are back")
		if a.brokeOff {
			clear(a.layers.blind) // it may be another runtime, or set up otherwise
		}
		a.brokeOff, a.unheard, a.heard = false, true, at
		a.tidySoon(tidyPause)
	case inventory.EventContainer, inventory.EventTask:
		a.stampUse(e, at)
		a.noteDead(e)
		if !a.aboveLine() {
			spacing = calmSpacing
		}
	}
	a.alarms.sooner(alarmEvents, latest(now.Add(eventPause), a.lastLook.Add(spacing)))
}

// takeEvents notes what the runtime has told of already: who plans from the latest inventory
// relies on it that nothing was. What comes meanwhile waits.
func (a *Agent) takeEvents() {
	for range len(a.events) {
		a.runtimeEvent(<-a.events)
	}
}

// happened is when: the loop may have been busy since, with a removal for minutes.
func (a *Agent) happened(e inventory.Event, now time.Time) time.Time {
	if e.At.IsZero() {
		return now
	}
	return a.clock.end(e.At)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
