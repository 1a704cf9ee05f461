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
	wanting      int       // of those, the ones that would go with it
	refused      int       // of those, the ones whose deletion is refused
	latest       time.Time // when a Pod was seen there that is late; zero: none is
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

// nodeMoved takes that a Node came, went, is in another state, is held now, or is not any more.
func (c *Collector) nodeMoved(name string) {
	n := c.bound[name]
	if n == nil {
		return
	}
	was := n.present
	if n.outOfService, n.present = c.nodes.Get(name); n.present && !was {
		for _, p := range n.pods { // another life of the Node
			c.refuse(p, false)
		}
	}
	c.reckon(n)
	c.quarantine(n)
	c.planPods(n)
}

// bind p to a node by name; "": to none.
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

// arrived says that p was seen to be bound to its node for the first time. The Node may
// have come again without being seen: only a read that is sent later is about this Pod.
func (c *Collector) arrived(p *pod) {
	if n := p.node; n != nil && n.Lost() {
		n.latest = c.now
		p.set(late, true)
		c.quarantine(n)
	}
}

// cover the Pods of n that are late by what was read since they came.
func (n *node) cover() {
	if n.latest.IsZero() {
		return
	}
	n.latest = time.Time{}
	for _, p := range n.pods {
		p.set(late, false)
	}
}

// touched says that something about the Pods of these nodes changed; nil: of none.
func (c *Collector) touched(nodes ...*node) {
	for _, n := range nodes {
		if n != nil {
			c.reckon(n)
		}
	}
	c.nodes.Weigh()
}

// reckonAll does after the list of Nodes, or what it is worth, changed.
func (c *Collector) reckonAll() {
	for _, n := range c.bound {
		c.reckon(n)
		if n.outOfService {
			c.planPods(n)
		}
	}
	c.nodes.Weigh()
}

// reckon whether n is lost, and what follows from that for itself.
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

// quarantine has n read when its quarantine is over, and for Pods that came later when
// that answer is too old.
func (c *Collector) quarantine(n *node) {
	var due time.Time
	if n.Lost() && !n.Held() && (!n.Absent() || !n.latest.IsZero()) {
		due = n.Next(c.config.Quarantine)
	}
	c.reads.Schedule(n, due)
}

// weighs says whether n counts against others. If all its Pods are refused, they may stay for ever. Their
// deletion was decided before that, so that n does not wait for others, either.
func (n *node) weighs() bool { return n.wanting > n.refused }

// refuse notes whether nobody may delete p as it is.
func (c *Collector) refuse(p *pod, is bool) {
	if p.is(refused) == is {
		return
	}
	c.uncount(p)
	p.set(refused, is)
	c.count(p)
}

// Held are the Nodes whose Pods stay because too many Nodes were lost at once, each with the number of
// its Pods.
func (c *Collector) Held() map[string]int {
	held := make(map[string]int)
	for l := range c.nodes.Held {
		held[l.Name] = c.bound[l.Name].wanting
	}
	return held
}

// ConfirmLost says that a person has seen that a Node is gone: see [nodes.Losses.Confirm].
func (c *Collector) ConfirmLost(now time.Time, name string) bool {
	c.now = now
	return c.nodes.Confirm(name)
}
