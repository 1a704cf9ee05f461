package pods

import (
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// node is a Node that is there, or that Pods are bound to. Its item is the live read.
type node struct {
	gc.Item
	name         string
	uid          uid
	epoch        uint32
	present      bool
	outOfService bool // and not ready
	pods         []*pod
	wanting      int  // of those, the ones that would go with it
	lost         bool // it is missing for sure, and something would go
	since        time.Time
	latest       time.Time // when a Pod was seen there that is late; zero: none is
	absentAt     time.Time // a live read said so then; zero: none did
}

func (c *Collector) nodeNamed(name string) *node {
	n := c.nodes[name]
	if n == nil {
		n = &node{name: strings.Clone(name)}
		c.nodes[n.name] = n
	}
	return n
}

func (c *Collector) observeNode(o gc.Object, f Node, known bool) {
	n := c.nodeNamed(o.Name)
	n.uid, _ = uidOf(o.UID)
	n.epoch = c.nodesRead.epoch
	present, outOfService := n.present, known && f.OutOfService && !f.Ready
	if present && n.outOfService == outOfService {
		return
	}
	if n.present, n.outOfService = true, outOfService; !present {
		c.present++
	}
	c.reckon(n)
	c.weigh()
	c.planPods(n)
}

// depart notes that a Node is not there any more.
func (c *Collector) depart(n *node) {
	n.present, n.outOfService = false, false
	c.present--
}

// bind p to a node by name; "": to none.
func (c *Collector) bind(p *pod, name string) {
	if n := p.node; n != nil {
		if n.name == name {
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
	if n := p.node; n != nil && n.lost {
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

// touched says that something about the Pods of n changed.
func (c *Collector) touched(n *node) {
	if n != nil {
		c.reckon(n)
		c.weigh()
	}
}

// doubt that n is still absent: it is read before anything goes.
func (c *Collector) doubt(n *node) {
	n.absentAt = time.Time{}
	c.quarantine(n)
}

// reckonAll does after the list of Nodes, or what it is worth, changed.
func (c *Collector) reckonAll() {
	for _, n := range c.nodes {
		c.reckon(n)
		if n.outOfService {
			c.planPods(n)
		}
	}
	c.weigh()
}

// reckon whether n is lost, and what follows from that for itself.
func (c *Collector) reckon(n *node) {
	if !n.present && len(n.pods) == 0 {
		if n.lost {
			c.lost--
		}
		c.reads.Drop(n)
		delete(c.nodes, n.name)
		return
	}
	lost := c.nodesRead.complete && !n.present && n.wanting > 0
	if lost == n.lost {
		return
	}
	n.lost, n.absentAt = lost, time.Time{}
	if lost {
		c.lost++
		n.since = c.now
		c.reads.Changed(n)
	} else {
		c.lost--
	}
	c.quarantine(n)
	c.planPods(n)
}

// quarantine has n read when its quarantine is over, and for Pods that came later when
// that answer is too old.
func (c *Collector) quarantine(n *node) {
	var due time.Time
	switch {
	case !n.lost || c.tooMany:
	case n.absentAt.IsZero():
		due = n.since.Add(c.config.Quarantine)
	case !n.latest.IsZero():
		due = n.absentAt.Add(c.config.Quarantine)
	}
	c.reads.Schedule(n, due)
}

// weigh whether too many Nodes are lost at once.
func (c *Collector) weigh() {
	const rounding = 1e-9 // 0.29 of 100 is 29
	tooMany := c.lost > max(1, int(c.config.MaxShare*float64(c.present+c.lost)+rounding))
	if tooMany == c.tooMany {
		return
	}
	c.tooMany = tooMany
	for _, n := range c.nodes {
		if n.lost {
			c.quarantine(n)
			c.planPods(n)
		}
	}
}
