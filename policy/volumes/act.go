package volumes

import (
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// Ready returns the actions that are due, the longest overdue first. At most Config.AtOnce volumes of each
// driver are in flight.
func (c *Collector) Ready(now time.Time, most int) (list []gc.Action) {
	for more := true; more; {
		next := c.Collection.Ready(now, most-len(list))
		for _, a := range next {
			if a.Verb == gc.DeleteVolume {
				c.calls[a.ID] = call{a.Object.UID, a.ResourceVersion, a.Driver}
			}
		}
		list = append(list, next...)
		// A volume that had its turn may have been kept, so another one has it.
		more = len(list) < most && c.next()
	}
	return list
}

// room reports whether another volume of the driver may be deleted now. If not, e waits for an answer of
// that driver. Nothing else waits for it.
func (c *Collector) room(e *kept) bool {
	v := e.volume
	if v == nil || c.calling[v.driver] < c.config.atOnce() {
		e.waits = false
		return true
	}
	if !e.waits {
		e.waits = true
		c.waiting[v.driver] = append(c.waiting[v.driver], e)
	}
	return false
}

// next ends the wait of volumes for which their drivers have room, and reports whether there were any.
func (c *Collector) next() (some bool) {
	for driver, list := range c.waiting {
		for n := c.config.atOnce() - c.calling[driver]; n > 0 && len(list) > 0; list = list[1:] {
			if e := list[0]; e.waits {
				e.waits, some = false, true
				c.Continue(e)
				n--
			}
		}
		if c.waiting[driver] = list; len(list) == 0 {
			delete(c.waiting, driver)
		}
	}
	return some
}

func (c *Collector) act(e *kept, why gc.Reason) gc.Action {
	a := c.Delete(Name, e, gc.Background, why)
	if v := e.volume; v != nil {
		a.Verb, a.Policy, a.Driver = gc.DeleteVolume, "", v.driver
		c.calling.Add(v.driver, 1)
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
	if l.Absent() { // the read was of Pods
		l.bound = a.State == gc.Exists
	}
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
		c.calling.Add(of.driver, -1)
		c.tried(of, r)
		c.next()
	}
}
