package volumes

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
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
	a := gc.Action{Collector: Name, Verb: gc.DeleteVolume, Reason: why, Object: c.Objects().Coordinates(e), ResourceVersion: e.ResourceVersion}
	if v := e.volume; v != nil {
		a.Driver = v.driver
		a.Owner = gc.Coordinates{APIVersion: "v1", Kind: "PersistentVolumeClaim", Resource: "persistentvolumeclaims", UID: v.claimUID}
		a.Owner.Namespace, a.Owner.Name = cut(v.claim)
		return a
	}
	l := e.left
	of := c.nodes.Type()
	a.Owner = gc.Coordinates{APIVersion: of.APIVersion, Kind: of.Kind, Resource: of.Resource, Name: l.node}
	if !l.absent || l.read <= l.missing || c.Now().Sub(l.read.Time()) > FreshFor {
		l.read, l.absent, l.free = gc.StampOf(c.Now()), false, false
		return gc.Action{Collector: Name, Verb: gc.Verify, Object: a.Owner, Reason: why}
	}
	if !l.free {
		return gc.Action{Collector: Name, Verb: gc.Bound, Object: a.Owner, Reason: why}
	}
	a.Verb, a.Policy = gc.Delete, gc.Background
	return a
}

// Answered takes what a live read of a Node, or of its Pods, returned. It began when it was asked for,
// at the earliest.
func (c *Collector) Answered(now, _ time.Time, id uint64, a gc.Answer) {
	e, ok := c.Read(now, id, a)
	if !ok || e.left == nil || e.left.missing == gc.NoStamp {
		return // its Node is there, or nobody knows
	}
	l := e.left
	if a.State == gc.Exists { // a watch is late, or somebody deletes and creates it
		l.missing = gc.StampOf(now)
	}
	if l.absent {
		l.free = a.State == gc.Absent
	}
	l.absent = l.free || !l.absent && a.State == gc.Absent
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
