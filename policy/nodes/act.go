package nodes

import (
	"math"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// pending is the ID of an Inventory action that has no ID yet.
const pending = math.MaxUint64

// Ready returns the actions that are due, the longest overdue first.
func (c *Collector) Ready(now time.Time, most int) []gc.Action {
	out := c.Collection.Ready(now, most)
	for _, a := range out {
		switch a.Verb {
		case gc.Inventory:
			c.survey.id = a.ID
		case gc.Delete:
			c.deletes[a.ID] = a.Object.UID
		}
	}
	return out
}

// act returns the next action for a Node that is due: the inventory, once for all such Nodes;
// then a live read of its Lease; then its deletion.
func (c *Collector) act(e *kept, why gc.Reason) gc.Action {
	node, s := c.Objects().Coordinates(e), &c.survey
	switch {
	case why != NotInInventory:
		s.id, s.asked, s.refused, s.known = pending, c.Now(), "", machines{}
		c.PlanAll()
		return gc.Action{Collector: Name, Verb: gc.Inventory, Object: node, Reason: AskingInventory}
	case e.verified.IsZero() || !e.verified.Equal(s.asked):
		return gc.Action{Collector: Name, Verb: gc.Verify, Reason: why, Owner: node,
			Object: gc.Coordinates{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Resource: "leases", Namespace: LeaseNamespace, Name: e.Name}}
	}
	c.spent[e.UID] = c.Now()
	c.PlanAll() // fewer may be deleted now
	return c.Delete(Name, e, gc.Background, why)
}

// Answered receives the result of a live read of a Node's Lease.
func (c *Collector) Answered(now, _ time.Time, id uint64, a gc.Answer) {
	if id == c.survey.id {
		c.Surveyed(now, id, nil)
		return
	}
	e, ok := c.Read(now, id, a)
	if !ok {
		return
	}
	switch l := c.leases.of[e.Name]; {
	case a.State == gc.Absent && l == nil, a.State == gc.Exists && l != nil && a.Object.UID == l.UID && a.Object.ResourceVersion == l.ResourceVersion:
		e.verified = c.survey.asked
	case a.State == gc.Exists: // it was written, and the watch is late
		e.heard = gc.StampOf(now)
	default:
		e.seen = gc.StampOf(now)
	}
	c.Plan(e)
}

// Finished receives the result of a deletion. A failed deletion may have been carried out, so
// it still counts against MaxShare.
func (c *Collector) Finished(now time.Time, id uint64, r gc.Result) {
	if id == c.survey.id {
		c.Surveyed(now, id, nil)
		return
	}
	uid, deleted := c.deletes[id]
	delete(c.deletes, id)
	c.Collection.Finished(now, id, r)
	if deleted && r != gc.Done && r != gc.Failed {
		delete(c.spent, uid)
		c.PlanAll()
	}
}
