package volumes

import (
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// Ready gives what is due, the longest first. So many volumes are on their way at most.
func (c *Collector) Ready(now time.Time, most int) []gc.Action {
	list := c.Collection.Ready(now, max(min(most, c.config.atOnce()-len(c.calls)), 0))
	for _, a := range list {
		if a.Verb == gc.DeleteVolume {
			c.calls[a.ID] = call{a.Object.UID, a.Driver}
		}
	}
	return list
}

// Next is when Ready has more to say; zero: not by itself.
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

// Answered takes what a live read of a Node, or then of its Pods, returned. It began when it was asked for,
// at the earliest. A Pod that is bound to the Node has the quarantine begin anew, too.
func (c *Collector) Answered(now, _ time.Time, id uint64, a gc.Answer) {
	e, ok := c.Read(now, id, a)
	if !ok || e.left == nil || e.left.Since == 0 {
		return // its Node is there, or nobody knows
	}
	l := e.left
	l.free = l.Absent() && a.State == gc.Absent
	l.Answered(now, a.State)
	c.Plan(e)
}

// Finished takes how an action went.
func (c *Collector) Finished(now time.Time, id uint64, r gc.Result) {
	of, called := c.calls[id]
	delete(c.calls, id)
	c.Collection.Finished(now, id, r)
	if called {
		c.tried(of, r)
	}
}
