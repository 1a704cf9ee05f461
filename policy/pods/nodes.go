package pods

import (
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// node is a Node to which Pods are bound. Its item is the live read.
type node struct {
	gc.Item
	nodes.Loss
	nodes.Absence
	present      bool // as far as is known
	outOfService bool // and not ready
	pods         []*pod
	wanting      int       // how many of them would be deleted with it
	refused      int       // how many of those have a refused deletion
	latest       time.Time // when the last late Pod was seen; zero: none is late
}

func (c *Collector) nodeNamed(name string) *node {
	n := c.bound[name]
	if n == nil {
		n = &node{Loss: nodes.Loss{Name: strings.Clone(name)}}
		n.outOfService, n.present = c.nodes.Get(name)
		c.bound[n.Name] = n
	}
	return n
}

// nodeMoved handles a Node that appeared or disappeared, whose flag changed, or that became
// held or is no longer held.
func (c *Collector) nodeMoved(name string) {
	n := c.bound[name]
	if n == nil {
		return
	}
	was := n.present
	if n.outOfService, n.present = c.nodes.Get(name); n.present && !was {
		for _, p := range n.pods { // the Node was created again
			c.refuse(p, false)
		}
	}
	c.reckon(n)
	c.quarantine(n)
	c.planPods(n)
}

// bind binds p to the Node of a name; "": to none.
func (c *Collector) bind(p *pod, name string) {
	if n := p.node; n != nil {
		if n.Name == name {
			return
		}
		last := len(n.pods) - 1
		moved := n.pods[last]
		n.pods[p.place], moved.place = moved, p.place
		n.pods[last], n.pods = nil, n.pods[:last]
		p.node = nil
		p.set(late, false)
	}
	if name == "" {
		return
	}
	n := c.nodeNamed(name)
	p.node, p.place = n, int32(len(n.pods))
	n.pods = append(n.pods, p)
}

// arrived records that p was first seen bound to its Node. The Node may have existed again
// unnoticed, so only a read that is sent later is about this Pod.
func (c *Collector) arrived(p *pod) {
	if n := p.node; n != nil && n.Lost() {
		n.latest = c.now
		p.set(late, true)
		c.quarantine(n)
	}
}

// cover records that a read sent after the late Pods of n arrived found n absent.
func (n *node) cover() {
	if n.latest.IsZero() {
		return
	}
	n.latest = time.Time{}
	for _, p := range n.pods {
		p.set(late, false)
	}
}

// touched reckons these nodes again after their Pods changed; it ignores nil.
func (c *Collector) touched(nodes ...*node) {
	for _, n := range nodes {
		if n != nil {
			c.reckon(n)
		}
	}
	c.nodes.Weigh()
}

// reckonAll reckons all nodes again after the list of Nodes changed, or became known or
// unknown.
func (c *Collector) reckonAll() {
	for _, n := range c.bound {
		c.reckon(n)
		if n.outOfService {
			c.planPods(n)
		}
	}
	c.nodes.Weigh()
}

// reckon decides whether n is lost, and updates its absence, its live read and its Pods.
func (c *Collector) reckon(n *node) {
	was := n.Lost()
	if c.nodes.Reckon(c.now, &n.Loss, n.wanting > 0, n.weighs()); len(n.pods) == 0 {
		c.reads.Drop(n)
		delete(c.bound, n.Name)
		return
	}
	if n.Lost() == was {
		return
	}
	if n.Miss(c.now, !was); !was {
		c.reads.Changed(n)
	}
	c.quarantine(n)
	c.planPods(n)
}

// quarantine schedules the live read of n: after its quarantine and, for Pods that arrived
// later, when the last answer is too old.
func (c *Collector) quarantine(n *node) {
	var due time.Time
	if n.Lost() && !n.Held() && (!n.Absent() || !n.latest.IsZero()) {
		due = n.Next(c.config.Quarantine)
	}
	c.reads.Schedule(n, due)
}

// weighs reports whether n counts as one of the Nodes lost together. If all its Pods are refused, they
// may stay forever. Their deletion was decided before that, so n does not wait for other Nodes, either.
func (n *node) weighs() bool { return n.wanting > n.refused }

// refuse records whether the deletion of p is refused in its current version.
func (c *Collector) refuse(p *pod, is bool) {
	if p.is(refused) == is {
		return
	}
	c.uncount(p)
	p.set(refused, is)
	c.count(p)
}

// Held returns the Nodes whose Pods stay because too many Nodes were lost at once, each with the
// number of its Pods.
func (c *Collector) Held() map[string]int {
	held := make(map[string]int)
	for l := range c.nodes.Held {
		held[l.Name] = c.bound[l.Name].wanting
	}
	return held
}

// ConfirmLost records that a person has confirmed the loss of a Node: see
// [nodes.Losses.Confirm].
func (c *Collector) ConfirmLost(now time.Time, name string) bool {
	c.now = now
	return c.nodes.Confirm(name)
}
