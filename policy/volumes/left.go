package volumes

import (
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// left is what is kept of a VolumeAttachment or a CSINode.
type left struct {
	nodes.Absence
	node    *node  // nil: its name is not known
	volume  string // the volume that is attached
	handle  string
	drivers Drivers
	csi     bool // it is a CSINode
	unread  bool // its fields are not known
	free    bool // a read after that of the Node found no Pod bound to it
	bound   bool // the last such read, of this object or of an earlier version, found one
}

// node is a Node of attachments and CSINodes.
type node struct {
	nodes.Loss
	left []*kept
}

func (c *Collector) learnLeft(e *kept, csi bool, fields any) {
	before := e.left
	if before == nil {
		before = new(left)
	} else {
		c.unleave(e)
	}
	l, name := &left{csi: csi}, e.Name
	if l.Since = before.Since; csi {
		l.drivers, _ = fields.(Drivers)
	} else {
		a, known := fields.(Attachment)
		name, l.volume, l.handle, l.unread = a.Node, a.Volume, a.Handle, !known
	}
	if e.left = l; name != "" {
		c.bind(e, name)
	}
	if n := before.node; n == l.node {
		l.bound = before.bound
	} else if n != nil {
		c.reckon(n)
	}
	c.bear(l, 1)
	c.unseen(before.unread, l.unread)
}

func (c *Collector) bind(e *kept, name string) {
	n := c.bound[name]
	if n == nil {
		n = &node{Loss: nodes.Loss{Name: strings.Clone(name)}}
		c.bound[n.Name] = n
	}
	e.left.node, n.left = n, append(n.left, e)
}

// unleave removes an attachment or a CSINode from the index. Its Node is kept until reckon is called.
func (c *Collector) unleave(e *kept) {
	c.bear(e.left, -1)
	if n := e.left.node; n != nil {
		n.left = slices.DeleteFunc(n.left, func(x *kept) bool { return x == e })
	}
}

func (c *Collector) planNode(name string) {
	if n := c.bound[name]; n != nil {
		for _, e := range n.left {
			c.Plan(e)
		}
	}
}

// bear adds (n is 1) or removes (n is -1) the effects of l on volumes, and judges these
// volumes again.
func (c *Collector) bear(l *left, n int) {
	if c.index.attached.Add(l.volume, n) {
		c.planVolume(l.volume)
	}
	if c.index.inline.Add(l.handle, n) {
		for _, e := range c.index.byHandle[l.handle] {
			c.Plan(e)
		}
	}
	turned := false
	for _, d := range l.drivers {
		turned = c.index.drivers.Add(c.words.Of(d), n) || turned
	}
	if turned {
		c.PlanAll()
	}
}

// reckon decides whether a Node is lost: it is gone, and something that it left would be
// deleted.
func (c *Collector) reckon(n *node) {
	wanted := slices.ContainsFunc(n.left, func(e *kept) bool { return c.wants(e) && !e.terminating && !e.owned })
	if c.nodes.Reckon(c.Now(), &n.Loss, wanted, true); len(n.left) == 0 {
		delete(c.bound, n.Name)
	}
	if !c.reckoning {
		c.nodes.Weigh()
	}
}

// wants reports whether Config asks for the deletion of what a Node left.
func (c *Collector) wants(e *kept) bool {
	if e.left.csi {
		return c.config.CSINodes
	}
	return c.config.Attachments
}

// Held returns the Nodes whose attachments and CSINodes stay because too many Nodes were lost at once,
// each with their number.
func (c *Collector) Held() map[string]int {
	held := make(map[string]int)
	for l := range c.nodes.Held {
		held[l.Name] = len(c.bound[l.Name].left)
	}
	return held
}

// ConfirmLost records that a person has confirmed the loss of a Node: see
// [nodes.Losses.Confirm].
func (c *Collector) ConfirmLost(now time.Time, name string) bool {
	c.SetTime(now)
	return c.nodes.Confirm(name)
}

// decideLeft returns why and when an attachment or a CSINode is to be deleted. If the time is
// zero, the reason is why it is kept; NodeGone then means that Config does not ask for its
// deletion. With PodsBound, another read is due at that time.
func (c *Collector) decideLeft(e *kept) (gc.Reason, time.Time) {
	l, never := e.left, time.Time{}
	kind := "VolumeAttachment"
	if l.csi {
		kind = "CSINode"
	}
	switch {
	case l.node == nil || !c.Objects().Whole(kind):
		return Unread, never
	case e.terminating:
		return Terminating, never
	case e.owned: // it goes with its owners
		return Owned, never
	case c.nodes.There(l.node.Name):
		return NodeThere, never
	case l.Since == 0:
		return NodesUnread, never
	case !c.wants(e):
		return NodeGone, never
	case l.node.Held():
		return TooManyLost, never
	case !c.leases.Known():
		return OtherUnread, never
	}
	why := NodeGone
	if l.bound {
		why = PodsBound
	}
	return why, c.leases.Last(l.node.Name, l.Since).Time().Add(nodes.Quarantine(c.config.Quarantine))
}
