package volumes

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
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
		l.node, l.volume, l.handle = c.word(a.Node), a.Volume, a.Handle
	} else {
		l.unread = true
	}
	e.left = l
	put(c.byNode, l.node, e)
	c.bear(l, 1)
	c.unseen(was, l.unread)
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

// decideLeft says when an attachment or a CSINode is to go; at the zero time, why it is
// kept, or that its Node is gone and nobody wants it deleted.
func (c *Collector) decideLeft(e *kept) (gc.Reason, time.Time) {
	l, never := e.left, time.Time{}
	kind, wanted := "VolumeAttachment", c.config.Attachments
	if e.kind == aCSINode {
		kind, wanted = "CSINode", c.config.CSINodes
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
	case !wanted:
		return NodeGone, never
	}
	return NodeGone, l.missing.Time().Add(c.config.quarantine())
}
