package leases

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// act has the Lease go, if what it rests on was read just now to be gone, or asks for that
// read.
func (c *Collector) act(e *kept, why gc.Reason) gc.Action {
	of, needed := c.restsOn(e), e.ofNode || e.holder != ""
	if needed && (!e.absent || e.ofNode && e.read <= e.missing || c.Now().Sub(e.read.Time()) > FreshFor) {
		e.read, e.absent = gc.StampOf(c.Now()), false
		return gc.Action{Collector: Name, Verb: gc.Verify, Object: of, Reason: why}
	}
	return gc.Action{
		Collector: Name, Verb: gc.Delete, Policy: gc.Background, Reason: why, Owner: of,
		Object: c.Objects().Coordinates(e), ResourceVersion: e.ResourceVersion,
	}
}

// restsOn is the Node of a Lease, or the Pod that holds an election; nothing if nobody does.
func (c *Collector) restsOn(e *kept) gc.Coordinates {
	switch t := c.nodes.Type(); {
	case e.ofNode:
		return gc.Coordinates{APIVersion: t.APIVersion, Kind: t.Kind, Resource: t.Resource, Name: e.Name}
	case e.holder != "":
		return gc.Coordinates{APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespace: e.Namespace, Name: e.holder}
	}
	return gc.Coordinates{}
}

// Answered takes what a live read of a Node or a Pod returned. It began when it was asked for,
// at the earliest.
func (c *Collector) Answered(now, _ time.Time, id uint64, a gc.Answer) {
	e, ok := c.Read(now, id, a)
	if !ok || e.ofNode && e.missing == gc.NoStamp {
		return // its Node is there, or nobody knows
	}
	switch { // its watch is late, or somebody deletes and creates it
	case a.State != gc.Exists:
	case e.ofNode:
		e.missing = gc.StampOf(now)
	default:
		e.lives = gc.StampOf(now)
	}
	e.absent = a.State == gc.Absent
	c.Plan(e)
}
