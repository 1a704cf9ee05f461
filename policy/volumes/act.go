package volumes

import (
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// Ready returns the actions that are due, the longest overdue first. At most Config.AtOnce
// volumes are in flight.
func (c *Collector) Ready(now time.Time, most int) []gc.Action {
	list := c.Collection.Ready(now, max(min(most, c.config.atOnce()-len(c.calls)), 0))
	for _, a := range list {
		if a.Verb == gc.DeleteVolume {
			c.calls[a.ID] = call{a.Object.UID, a.Driver}
		}
	}
	return list
}

// Next returns when Ready has more to return; zero if that needs an event or an answer.
func (c *Collector) Next() time.Time {
	if len(c.calls) >= c.config.atOnce() {
		return time.Time{} // an answer makes room
	}
	return c.Collection.Next()
}

func (c *Collector) act(e *kept, why gc.Reason) gc.Action {
	a := c.Delete(Name, e, gc.Background, why)
	if v := e.volume; v != nil {
		a.Verb, a.Policy, a.Driver = gc.DeleteVolume, "", v.driver
		a.Owner = gc.Coordinates{APIVersion: "v1", Kind: "PersistentVolumeClaim", Resource: "persistentvolumeclaims", UID: v.claimUID}
		a.Owner.Namespace, a.Owner.Name, _ = strings.Cut(v.claim, "/")
		return a
	}
	l := e.left
	a.Owner = c.nodes.At(l.node.Name)
	switch {
	case !l.Proven(c.Now(), nodes.AbsentFor):
		l.Asked(c.Now())
		l.free = false
		return gc.Action{Collector: Name, Verb: gc.Verify, Object: a.Owner, Reason: why}
	case !l.free:
		return gc.Action{Collector: Name, Verb: gc.Bound, Object: a.Owner, Reason: why}
	}
	return a
}

// Answered receives the result of a live read: of a Node or, after that, of its Pods. The read was sent no
// earlier than it was asked for. If a Pod is bound to the Node, the quarantine starts over, as it does for
// a Node that exists.
func (c *Collector) Answered(now, _ time.Time, id uint64, a gc.Answer) {
	e, ok := c.Read(now, id, a)
	if !ok || e.left == nil || e.left.Since == 0 {
		return // its Node exists, or is not known to be missing
	}
	l := e.left
	l.free = l.Absent() && a.State == gc.Absent
	l.Answered(now, a.State)
	c.Plan(e)
}

// Finished receives the result of an action.
func (c *Collector) Finished(now time.Time, id uint64, r gc.Result) {
	of, called := c.calls[id]
	delete(c.calls, id)
	c.Collection.Finished(now, id, r)
	if called {
		c.tried(of, r)
	}
}
