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
	// eventPause is how long a burst of runtime events is collected before the next look. eventSpacing
	// is the least time between two such looks, because each lists the whole runtime.
	eventPause   = 300 * time.Millisecond
	eventSpacing = 5 * time.Second

	// calmSpacing replaces eventSpacing for containers that start and stop while the disk is below its
	// threshold. Their uses are recorded anyway, and there is nothing to decide.
	calmSpacing = 30 * time.Second

	// eventBurst is how many looks events may cause in a row while the disk is over its threshold: a
	// removal may be waiting for any of these events. After that there is again one look in
	// eventSpacing.
	eventBurst = 4
)

// eventsBroken is the condition that the runtime's event stream is broken.
const eventsBroken = "runtime events"

// runtimeAway is the condition that the runtime has not answered since the start.
const runtimeAway = "dial"

// runtimeUp takes over a fresh connection.
func (a *Agent) runtimeUp(rt Runtime) {
	a.rt = rt
	a.reclaim.Connected(rt)
	a.lastUse.Layers().Connected(rt)
	a.learnt.connected(rt)
	a.conditions.End(runtimeAway, "the container runtime answers")
	a.log.Info("container runtime connected", "socket", a.cfg.Runtime.Socket, "version", rt.Version(), "reason", "start")
	a.looks.request(0)
	a.dead.want()
}

// runtimeEvent handles an event. It records uses at once; everything else waits until the burst is
// over.
func (a *Agent) runtimeEvent(e inventory.Event) {
	now := a.now()
	next := a.looks.last.Add(eventSpacing)
	if a.reclaim.Above() {
		next = a.looks.afterBurst()
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
		a.looks.roots = inventory.Roots{} // it may be another runtime, or have other directories
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

// takeEvents handles the events that the runtime has already sent. A plan from the latest inventory
// relies on it: the inventory is up to date only if there were none.
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

// happened returns when an event happened, by ebb's clock. The agent may handle it late. An event
// without a time happened now.
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
