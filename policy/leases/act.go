package leases

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Ready gives what is to be done about Leases that are due, those due longest first.
func (c *Collector) Ready(now time.Time, most int) []gc.Action {
	c.now = now
	return c.queue.Ready(now, most, c.ask)
}

// ask for the Lease to go, if its Node was read just now, or for that read.
func (c *Collector) ask(e *kept) (gc.Action, bool) {
	why, due := c.decide(e)
	t := c.nodes.t
	node := gc.Coordinates{APIVersion: t.APIVersion, Kind: t.Kind, Resource: t.Resource, Name: e.Name}
	if !e.absent || e.read <= e.missing || c.now.Sub(e.read.Time()) > FreshFor {
		e.read, e.absent = gc.StampOf(c.now), false
		return gc.Action{Collector: Name, Verb: gc.Verify, Object: node, Reason: why}, !due.IsZero()
	}
	return gc.Action{
		Collector: Name, Verb: gc.Delete, Policy: gc.Background, Reason: why, Owner: node,
		Object: e.Coordinates(c.t), ResourceVersion: e.ResourceVersion,
	}, !due.IsZero()
}

// Answered takes what a live read of a Node told. It began when it was asked for, at the
// earliest.
func (c *Collector) Answered(now, _ time.Time, id uint64, a gc.Answer) {
	c.now = now
	result := map[gc.State]gc.Result{gc.Exists: gc.Done, gc.Absent: gc.Done, gc.TooBusy: gc.TooMany, gc.Unknown: gc.Failed}[a.State]
	e, ok := c.queue.Finished(now, id, result)
	if !ok || result != gc.Done {
		return
	}
	if c.queue.Again(e); e.missing == gc.NoStamp {
		return // its Node is there, or nobody knows
	}
	if a.State == gc.Exists { // its watch is late, or somebody deletes and creates it
		e.missing = gc.StampOf(now)
	}
	e.absent = a.State == gc.Absent
	c.plan(e)
}

// Patched takes nothing: nothing is ever patched.
func (c *Collector) Patched(now time.Time, _ uint64, _ gc.Object) { c.now = now }

// Finished takes how a deletion went.
func (c *Collector) Finished(now time.Time, id uint64, r gc.Result) {
	c.now = now
	c.queue.Finished(now, id, r)
}

// Next is when Ready has more to say; zero: not by itself.
func (c *Collector) Next() time.Time { return c.queue.Next() }

// Slow says that few are wanted, and none before a moment.
func (c *Collector) Slow(now, until time.Time, most int) {
	c.now = now
	c.queue.Slow(now, until, most)
}

// Hold has nothing asked for while it is on.
func (c *Collector) Hold(now time.Time, on bool) {
	c.now = now
	c.queue.Hold(on)
}

// Release has asked for again what was withheld.
func (c *Collector) Release(now time.Time) {
	c.now = now
	c.queue.Release(c.leases.All)
}

// Explain says why a Lease goes, and when, or why it is kept.
func (c *Collector) Explain(o gc.Coordinates) (gc.Finding, bool) {
	e := c.leases.Get(o.UID)
	if e == nil {
		return gc.Finding{}, false
	}
	why, _ := c.decide(e)
	return e.Find(why), true
}
