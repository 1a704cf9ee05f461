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
	a.log.Info("container runtime connected", "socket", a.cfg.Runtime.Socket, "version", rt.Version(), "reason", "start")
	a.look(ctx, 0)
	a.tidy(ctx)
}

// runtimeEvent notes an event. Uses are stamped at once; everything else waits
// for the burst to pass.
func (a *Agent) runtimeEvent(e inventory.Event) {
	now, spacing := a.clock.now(), eventSpacing
	switch e.Kind {
	case inventory.EventDown:
		a.metrics.runtimeUp.Set(0)
		a.setReady("the container runtime's event stream broke off: " + e.Err.Error())
		a.said.once(a.log, "events", slog.LevelWarn, "runtime events broke off; reconnecting", "error", e.Err)
		return
	case inventory.EventResync:
		a.metrics.runtimeUp.Set(1)
		a.said.clear(a.log, "events", "runtime events are back")
		a.containers = nil // whatever came or went in between is unknown
		a.tidySoon(tidyPause)
	case inventory.EventContainer, inventory.EventTask:
		a.stampUse(e, now)
		if e.Ended {
			a.dead.ended[e.Container] = 0
		}
		if e.Ended || e.Kind == inventory.EventContainer {
			a.tidySoon(tidyPause)
		}
		if !a.aboveLine() {
			spacing = calmSpacing
		}
	}
	a.alarms.sooner(alarmEvents, latest(now.Add(eventPause), a.lastLook.Add(spacing)))
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
