package pods

import (
	"maps"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// The IDs of live reads are odd, the IDs of all other actions are even.
func readID(id uint64) uint64 { return id<<1 | 1 }
func workID(id uint64) uint64 { return id << 1 }

// Ready returns the actions that are due: live reads, then force deletions, then evicted
// Pods, then other ended Pods, the oldest first.
func (c *Collector) Ready(now time.Time, most int) []gc.Action {
	c.now = now
	out := c.reads.Ready(now, most, func(n *node) (gc.Action, bool) {
		return gc.Action{Collector: Name, Verb: gc.Verify, Object: c.nodes.At(n.Name), Reason: NodeMissing}, true
	})
	for i := range out {
		out[i].ID = readID(out[i].ID)
	}
	for _, a := range c.queue.Ready(now, most-len(out), c.ask) {
		if a.ID = workID(a.ID); a.Verb == gc.FailPod {
			u := gc.UIDOf(a.Object.UID)
			c.failing[a.ID] = c.pods.Get(u)
		}
		out = append(out, a)
	}
	return out
}

func (c *Collector) ask(t *task) (gc.Action, bool) {
	p := t.pod
	v := c.judge(p)
	if v.goes && v.reason == NodeGone && !p.node.Proven(c.now, c.config.Quarantine) {
		p.node.Doubt() // that read is too old: read the Node again first
		c.quarantine(p.node)
		v = c.judge(p)
	}
	if !v.goes {
		c.plan(p)
		return gc.Action{}, false
	}
	a := gc.Action{Collector: Name, Verb: gc.Delete, Object: c.at(p), ResourceVersion: p.version(), NoGrace: true, Reason: v.reason}
	if v.fail {
		a.Verb, a.NoGrace, a.Disrupted, a.Generation = gc.FailPod, false, a.Reason == NodeGone, int64(p.generation)
	}
	if v.reason == NodeGone || v.reason == OutOfService {
		a.Owner = c.nodes.At(p.node.Name)
	}
	return a, true
}

func (c *Collector) at(p *pod) gc.Coordinates {
	t := c.podsRead.t
	return gc.Coordinates{
		APIVersion: t.APIVersion, Kind: t.Kind, Resource: t.Resource,
		Namespace: p.space.name, Name: p.name(), UID: c.texts.Text(p.uid),
	}
}

// Answered receives the result of a live read of a Node. asOf is when the read was sent, by
// the same clock as now.
func (c *Collector) Answered(now, asOf time.Time, id uint64, a gc.Answer) {
	c.now = now
	if id != readID(id>>1) {
		return
	}
	n, ok := c.reads.Finished(now, id>>1, a.State.Result())
	if !ok || !n.Lost() {
		return
	}
	if over := !asOf.Before(n.Since.Time().Add(c.config.Quarantine)); a.State == gc.Exists || a.State == gc.Absent && over {
		n.Asked(asOf)
		if n.Answered(now, a.State); n.Absent() && asOf.After(n.latest) {
			n.cover()
		}
		c.planPods(n)
	}
	c.quarantine(n)
}

// Patched receives the Pod as it is after a FailPod.
func (c *Collector) Patched(now time.Time, id uint64, o gc.Object) {
	c.now = now
	p := c.failing[id]
	if p == nil || p.task == nil || p.task.Overtaken() {
		return // its watch was first, and may have reported more since
	}
	c.uncount(p)
	p.set(refused, false)
	p.rename(o)
	p.phase, p.ended = failed, seconds(now)
	p.set(terminating, o.Terminating)
	p.set(finalizers, len(o.Finalizers) > 0)
	p.task.owner = ownerOf(o)
	c.count(p)
	c.touched(p.node)
	c.plan(p)
}

// Finished receives the result of an action.
func (c *Collector) Finished(now time.Time, id uint64, r gc.Result) {
	c.now = now
	if id == readID(id>>1) {
		c.reads.Finished(now, id>>1, r)
		return
	}
	failing := c.failing[id] != nil
	delete(c.failing, id)
	t, ok := c.queue.Finished(now, id>>1, r)
	if !ok {
		return
	}
	if r == gc.Done && failing && t.pod.over() {
		c.queue.Again(t) // the deletion follows
	}
	if r == gc.Forbidden {
		c.refuse(t.pod, true)
		c.touched(t.pod.node)
	}
	c.plan(t.pod)
}

// Next returns when Ready has more to return; zero if nothing is planned.
func (c *Collector) Next() time.Time {
	next, read := c.queue.Next(), c.reads.Next()
	if next.IsZero() || !read.IsZero() && read.Before(next) {
		next = read
	}
	if !next.IsZero() && next.Before(c.now) {
		return c.now
	}
	return next
}

// Slow limits the rate of actions: none before until, and then no more than most in each
// period of that length. It ends with [Collector.Release], or when fewer are due.
func (c *Collector) Slow(now, until time.Time, most int) {
	c.now = now
	c.reads.Slow(now, until, most)
	c.queue.Slow(now, until, most)
}

// Hold stops all actions while on is true.
func (c *Collector) Hold(now time.Time, on bool) {
	c.now = now
	c.reads.Hold(on)
	c.queue.Hold(on)
}

// Release allows again what was withheld or slowed.
func (c *Collector) Release(now time.Time) {
	c.now = now
	c.reads.Release(maps.Values(c.bound))
	c.queue.Release(c.tasks)
}

// Len returns how many Pods and Nodes are kept.
func (c *Collector) Len() int { return c.pods.Len() + c.nodes.Len() }

// Explain returns what is known of a Pod, or of the Pods of a missing Node: why they are
// kept, or when they are deleted.
func (c *Collector) Explain(o gc.Coordinates) (gc.Finding, bool) {
	if n := c.bound[o.Name]; o.Kind == "Node" && n != nil && !n.present {
		return n.Find(c.missing(n)), true
	}
	u := gc.UIDOf(o.UID)
	p := c.pods.Get(u)
	if o.Kind != "Pod" || p == nil {
		return gc.Finding{}, false
	}
	return c.find(p), true
}

func (c *Collector) find(p *pod) (f gc.Finding) {
	v := c.judge(p)
	if p.task != nil {
		f = p.task.Find("")
	}
	f.Reason, f.Due = v.reason, v.due // the queue's Due is only its place there
	if v.goes && v.due.IsZero() {
		f.Due = c.now
	}
	return f
}

// Planned returns the first Pods that are due by until, and how many there are in all.
func (c *Collector) Planned(until time.Time, most int) ([]gc.Planned, int) {
	due := func(t *task) time.Time { return c.find(t.pod).Due }
	return gc.Earliest(c.tasks, due, until, most, func(t *task) gc.Planned { return gc.Planned{Object: c.at(t.pod), Finding: c.find(t.pod)} })
}

// missing returns the reason for the Pods of a Node that does not exist.
func (c *Collector) missing(n *node) gc.Reason {
	switch {
	case !c.nodes.Known():
		return NodesUnread
	case n.Held():
		return TooManyLost
	case !n.Absent():
		return NodeMissing
	}
	return NodeGone
}

// Counts returns how many Pods would be deleted with their Nodes if not too many Nodes were
// lost at once. An operator should look at them.
func (c *Collector) Counts(time.Time) map[gc.Reason]int {
	held := 0
	for _, n := range c.Held() {
		held += n
	}
	return map[gc.Reason]int{TooManyLost: held}
}
