package pods

import (
	"cmp"
	"math"
	"slices"
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
	wanting      int       // of those, the ones that would go with it
	refused      int       // of those, the ones whose deletion is refused
	lost         bool      // it is missing for sure, and something would go
	counts       bool      // against others that are lost
	held         bool      // it was lost together with too many others
	confirmed    bool      // a person says that it is gone
	left         time.Time // when it was lost first since it was there; zero: it was not
	since        time.Time // when its quarantine began
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
		c.unweighed = true
		delete(c.settled, n.name)
		for _, p := range n.pods { // another life of the Node
			c.refuse(p, false)
		}
	}
	c.reckon(n)
	n.left, n.confirmed = time.Time{}, false
	c.weigh()
	c.planPods(n)
}

// depart notes that a Node is not there any more.
func (c *Collector) depart(n *node) {
	n.present, n.outOfService = false, false
	c.present--
	c.unweighed = true
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

// touched says that something about the Pods of these nodes changed; nil: of none.
func (c *Collector) touched(nodes ...*node) {
	for _, n := range nodes {
		if n != nil {
			c.reckon(n)
		}
	}
	c.weigh()
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
		c.setLost(n, false)
		c.reads.Drop(n)
		delete(c.nodes, n.name)
		return
	}
	lost := c.nodesRead.complete && !n.present && n.wanting > 0
	if lost == n.lost {
		if counts := n.weighs(); n.counts != counts {
			n.counts, c.unweighed = counts, true
		}
		return
	}
	c.setLost(n, lost)
	if n.absentAt = (time.Time{}); lost {
		n.since = c.now
		c.reads.Changed(n)
	}
	c.quarantine(n)
	c.planPods(n)
}

// quarantine has n read when its quarantine is over, and for Pods that came later when
// that answer is too old.
func (c *Collector) quarantine(n *node) {
	var due time.Time
	switch {
	case !n.lost || n.held:
	case n.absentAt.IsZero():
		due = n.since.Add(c.config.Quarantine)
	case !n.latest.IsZero():
		due = n.absentAt.Add(c.config.Quarantine)
	}
	c.reads.Schedule(n, due)
}

// setLost notes whether n is lost, among the others that are.
func (c *Collector) setLost(n *node, lost bool) {
	if lost == n.lost {
		return
	}
	if lost && n.left.IsZero() {
		n.left = c.now
	}
	if delete(c.settled, n.name); !lost && n.counts && (n.held || n.confirmed) && !n.present && c.nodesRead.complete {
		c.settled[n.name] = n.left
	}
	at, _ := slices.BinarySearchFunc(c.lost, n, func(a, b *node) int {
		return cmp.Or(a.left.Compare(b.left), strings.Compare(a.name, b.name))
	})
	c.unweighed = true
	if n.lost, n.held, n.counts = lost, false, n.weighs(); lost {
		c.lost = slices.Insert(c.lost, at, n)
	} else {
		c.lost = slices.Delete(c.lost, at, at+1)
	}
}

// weighs says whether n counts against others. If all its Pods are refused, they may stay for ever. Their
// deletion was decided before that, so that n does not wait for others, either.
func (n *node) weighs() bool { return n.wanting > n.refused }

// weigh which of the Nodes that are lost were lost together with too many others.
func (c *Collector) weigh() {
	if !c.unweighed {
		return
	}
	c.unweighed = false
	const rounding = 1e-9 // 0.29 of 100 is 29
	first, next, together, anyHeld := 0, 0, 0, false
	for _, n := range c.lost {
		for ; next < len(c.lost) && c.lost[next].left.Sub(n.left) <= LostTogether; next++ {
			together += count(c.lost[next])
		}
		for ; n.left.Sub(c.lost[first].left) > LostTogether; first++ {
			together -= count(c.lost[first])
		}
		all := together
		for _, left := range c.settled {
			if left.Sub(n.left).Abs() <= LostTogether {
				all++
			}
		}
		most := math.Ceil(c.config.MaxShare*float64(c.present+all) - rounding)
		held := n.counts && !n.confirmed && float64(all) > max(1, most)
		anyHeld = anyHeld || held
		if held == n.held {
			continue
		}
		n.held = held
		c.quarantine(n)
		c.planPods(n)
	}
	if !anyHeld {
		clear(c.settled)
	}
}

func count(n *node) int {
	if n.counts {
		return 1
	}
	return 0
}

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
	for _, n := range c.lost {
		if n.held {
			held[n.name] = n.wanting
		}
	}
	return held
}

// ConfirmLost says that a person has seen that a Node is gone. It reports whether that was waited for.
// It counts until the Node is there again, or all its Pods are gone.
func (c *Collector) ConfirmLost(now time.Time, name string) bool {
	c.now = now
	n := c.nodes[name]
	if n == nil || !n.held {
		return false
	}
	n.confirmed, c.unweighed = true, true
	c.weigh()
	return true
}
