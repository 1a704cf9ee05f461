package node

import (
	"log/slog"
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/lastuse"
	"github.com/ebb-agent/ebb/agent/node/workloads"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

const (
	// eventPause is how long a burst of runtime events is collected before the
	// world is looked at again, and eventSpacing the least time between two
	// such looks: a look lists the whole runtime.
	eventPause   = 300 * time.Millisecond
	eventSpacing = 5 * time.Second

	// calmSpacing is eventSpacing for containers that come and go while the
	// disk is low: their uses are stamped anyway, nothing is to be decided.
	calmSpacing = 30 * time.Second

	// eventBurst is how many looks events may have at once while the disk is over its
	// threshold, where each event may be what a removal waits for. After them it is
	// one in eventSpacing again.
	eventBurst = 4
)

// eventsBroken is the condition that the runtime's events do not come.
const eventsBroken = "events"

// runtimeUp takes over a fresh connection.
func (a *Agent) runtimeUp(rt Runtime) {
	a.rt = rt
	a.reclaim.Connected(rt)
	a.lastUse.Layers().Connected(rt)
	a.learnt.connected(rt)
	a.log.Info("container runtime connected", "socket", a.cfg.Runtime.Socket, "version", rt.Version(), "reason", "start")
	a.looks.request(0)
	a.dead.want()
}

// runtimeEvent notes an event. Uses are stamped at once; everything else waits
// for the burst to pass.
func (a *Agent) runtimeEvent(e inventory.Event) {
	now := a.now()
	next := a.looks.last.Add(eventSpacing)
	if a.reclaim.Above() {
		next = a.looks.forEvents[0].Add(eventBurst * eventSpacing)
	}
	at := a.happened(e, now)
	a.looks.eventsSince = true
	if e.Kind != inventory.EventDown {
		a.watermark.HoldsMayEnd()
	}
	switch e.Kind {
	case inventory.EventDown:
		a.lastUse.EventsBroke()
		a.metrics.runtimeUp.Set(0)
		a.health.setReady("the container runtime's event stream broke off: " + e.Err.Error())
		a.conditions.Begin(eventsBroken, slog.LevelWarn, "runtime events broke off; reconnecting", "error", e.Err)
		return
	case inventory.EventResync:
		a.metrics.runtimeUp.Set(1)
		a.conditions.End(eventsBroken, "runtime events are back")
		a.lastUse.EventsBack(at)
		a.workloads.Soon(workloads.LookPause)
		next = now // the agent is not ready before that look
	case inventory.EventContainer, inventory.EventTask:
		a.lastUse.Event(e, at)
		a.workloads.Noted(e)
		if !a.reclaim.Above() {
			next = a.looks.last.Add(calmSpacing)
		}
	}
	a.alarms.sooner(alarmEvents, clock.Latest(now.Add(eventPause), next))
}

// takeEvents handles the events that the runtime has sent already: who plans from the latest inventory
// relies on it that nothing was.
func (a *Agent) takeEvents() {
	for range cap(a.in.events) {
		select {
		case e := <-a.in.events:
			a.runtimeEvent(e)
		default:
			return
		}
	}
}

// happened is when: the loop may have been busy since, with a removal for minutes.
func (a *Agent) happened(e inventory.Event, now time.Time) time.Time {
	if e.At.IsZero() {
		return now
	}
	return a.clock.End(e.At)
}

// layerResolved takes the resolver's answer on one layer.
func (a *Agent) layerResolved(r lastuse.Resolution) {
	done, news := a.lastUse.Layers().Resolved(r)
	if news {
		a.saver.Save()
	}
	if done {
		a.looks.indexHeat()
	}
}
