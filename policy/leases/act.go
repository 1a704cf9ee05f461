package leases

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// act deletes the Lease if a live read has just found its Node, or the Pod that held it,
// absent. Otherwise it asks for that read.
func (c *Collector) act(e *kept, why gc.Reason) gc.Action {
	a := c.Delete(Name, e, gc.Background, why)
	switch {
	case e.ofNode:
		a.Owner = c.nodes.At(e.Name)
	case e.holder != "":
		a.Owner = gc.Coordinates{APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespace: e.Namespace, Name: e.holder}
	default: // the election has no holder
		return a
	}
	if !e.Proven(c.Now(), nodes.AbsentFor) {
		e.Asked(c.Now())
		e.changed = false
		return gc.Action{Collector: Name, Verb: gc.Verify, Object: a.Owner, Reason: why}
	}
	return a
}

// Answered receives the result of a live read of a Node or a Pod. The read was sent no earlier
// than it was asked for.
func (c *Collector) Answered(now, _ time.Time, id uint64, a gc.Answer) {
	// Without Since, the Node of the Lease exists, or is not known to be missing.
	if e, ok := c.Read(now, id, a); ok && (!e.ofNode || e.Since > 0) {
		if !e.changed {
			e.Answered(now, a.State)
		}
		c.Plan(e)
	}
}
