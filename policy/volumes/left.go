package volumes

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// left is what is kept of an attachment or a CSINode.
type left struct {
	node    string
	volume  string // that is attached
	handle  string
	drivers Drivers
	unread  bool     // its fields are not known
	missing gc.Stamp // since then, its Node is
	read    gc.Stamp // when its Node was read live
	absent  bool     // that read said so
	free    bool     // no Pod is bound to it, as a later read said
}

func (c *Collector) learnLeft(e *kept, fields any) {
	l, was := &left{missing: gc.NoStamp}, false
	if e.left != nil {
		l.missing, was = e.left.missing, e.left.unread
		c.unleave(e)
	}
	if e.kind == aCSINode {
		l.node = e.Name
		l.drivers, _ = fields.(Drivers)
	} else if a, known := fields.(Attachment); known {
		l.node, l.volume, l.handle = c.nodeName(a.Node), a.Volume, a.Handle
	} else {
		l.unread = true
	}
	e.left = l
	put(c.byNode, l.node, e)
	c.bear(l, 1)
	c.unseen(was, l.unread)
}

// nodeName gives one copy of the name for all that a Node has left. Nodes come and go: words would grow.
func (c *Collector) nodeName(name string) string {
	if known := c.byNode[name]; len(known) > 0 {
		return known[0].left.node
	}
	return cloned(name)
}

// unleave takes out what an attachment or a CSINode says.
func (c *Collector) unleave(e *kept) {
	take(c.byNode, e.left.node, e)
	c.bear(e.left, -1)
}

// bear on volumes, or not any more.
func (c *Collector) bear(l *left, n int) {
	if c.index.attached.add(l.volume, n) {
		c.planVolume(l.volume)
	}
	if c.index.inline.add(l.handle, n) {
		for _, e := range c.index.byHandle[l.handle] {
			c.Plan(e)
		}
	}
	turned := false
	for _, d := range l.drivers {
		turned = c.index.drivers.add(c.word(d), n) || turned
	}
	if turned {
		c.PlanAll()
	}
}

// miss notes since when the Node is missing.
func (c *Collector) miss(l *left) {
	switch missing := l.node != "" && c.nodes.Known() && !c.hasNode(l); {
	case !missing:
		l.missing = gc.NoStamp
	case l.missing == gc.NoStamp:
		l.missing = gc.StampOf(c.Now())
	}
}

// hasNode says whether its Node is there, as far as is known.
func (c *Collector) hasNode(l *left) bool {
	_, there := c.nodes.UID(l.node)
	return there
}

// reckon whether a Node is lost: it is gone, and something of it would go, too.
func (c *Collector) reckon(node string) {
	_, there := c.nodes.UID(node)
	l, wanted := c.lost[node], false
	for _, e := range c.byNode[node] {
		wanted = wanted || c.wants(e) && !e.terminating && !e.owned
	}
	switch {
	case node != "" && c.nodes.Known() && !there && wanted:
		if l == nil {
			l = &nodes.Loss{Name: node}
			c.lost[node] = l
		}
		c.losses.Lose(c.Now(), l, true)
	case l != nil:
		c.losses.Drop(l, c.nodes.Known() && !there)
		if len(c.byNode[node]) == 0 {
			delete(c.lost, node)
		}
	}
	c.losses.Weigh()
}

// wants says whether what a Node has left is to go.
func (c *Collector) wants(e *kept) bool {
	if e.kind == aCSINode {
		return c.config.CSINodes
	}
	return c.config.Attachments
}

// Held are the Nodes whose attachments and CSINodes stay because too many Nodes were lost at once, each
// with their number.
func (c *Collector) Held() map[string]int {
	held := make(map[string]int)
	for l := range c.losses.Held {
		held[l.Name] = len(c.byNode[l.Name])
	}
	return held
}

// ConfirmLost says that a person has seen that a Node is gone: see [nodes.Losses.Confirm].
func (c *Collector) ConfirmLost(now time.Time, name string) bool {
	c.Tell(now)
	return c.losses.Confirm(c.lost[name])
}

// decideLeft says when an attachment or a CSINode is to go; at the zero time, why it is
// kept, or that its Node is gone and nobody wants it deleted.
func (c *Collector) decideLeft(e *kept) (gc.Reason, time.Time) {
	l, never := e.left, time.Time{}
	kind := "VolumeAttachment"
	if e.kind == aCSINode {
		kind = "CSINode"
	}
	switch {
	case l.node == "" || !c.known[kind]:
		return Unread, never
	case e.terminating:
		return Terminating, never
	case e.owned: // it goes with its owners
		return Owned, never
	case c.hasNode(l):
		return NodeThere, never
	case l.missing == gc.NoStamp:
		return NodesUnread, never
	case !c.wants(e):
		return NodeGone, never
	case c.lost[l.node] != nil && c.lost[l.node].Held():
		return TooManyLost, never
	case !c.leases.Known():
		return OtherUnread, never
	}
	last := l.missing
	if life := c.leases.Of(l.node); life != nil {
		last = max(last, life.Last)
	}
	return NodeGone, last.Time().Add(c.config.quarantine())
}
