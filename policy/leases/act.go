package leases

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// act has the Lease go, if what it rests on was read just now to be gone, or asks for that
// read.
func (c *Collector) act(e *kept, why gc.Reason) gc.Action {
	a := c.Delete(Name, e, gc.Background, why)
	switch {
	case e.ofNode:
		a.Owner = c.nodes.At(e.Name)
	case e.holder != "":
		a.Owner = gc.Coordinates{APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespace: e.Namespace, Name: e.holder}
	default: // nobody holds the election
		return a
	}
	if !e.Proven(c.Now(), nodes.AbsentFor) {
		e.Asked(c.Now())
		e.changed = false
		return gc.Action{Collector: Name, Verb: gc.Verify, Object: a.Owner, Reason: why}
	}
	return a
}

// Answered takes what a live read of a Node or a Pod returned. It began when it was asked for,
// at the earliest.
func (c *Collector) Answered(now, _ time.Time, id uint64, a gc.Answer) {
	if e, ok := c.Read(now, id, a); ok && (!e.ofNode || e.Since > 0) { // else its Node is there, or nobody knows
		if !e.changed {
			e.Answered(now, a.State)
		}
		c.Plan(e)
	}
}
