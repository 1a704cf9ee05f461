package leases

import (
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Collector knows all Leases and Nodes. It is not safe for concurrent use.
type Collector struct {
	config  Config
	t       gc.Type // of Leases
	leases  gc.Objects[*kept]
	current bool             // they were listed, and can be read since
	byName  map[string]*kept // Leases of Nodes
	nodes   nodes
	queue   gc.Queue[*kept]
	now     time.Time
}

// kept is what is known of a Lease.
type kept struct {
	gc.Entry
	expires     gc.Stamp
	missing     gc.Stamp // since then, its Node is
	read        gc.Stamp // when its Node was read live
	absent      bool     // that read said so
	ofNode      bool     // it is in the namespace of such Leases
	holds       bool     // its holder is the Node, or nobody
	owned       bool
	terminating bool
	identity    bool
	own         bool
}

// New makes an empty collector.
func New(config Config) *Collector {
	return &Collector{config: config, byName: make(map[string]*kept), nodes: nodes{present: make(map[string]*node)}}
}

func isNode(t gc.Type) bool { return t.Kind == "Node" }

// Configure takes another configuration: all Leases are judged anew.
func (c *Collector) Configure(now time.Time, config Config) {
	c.now, c.config = now, config
	for e := range c.leases.All {
		e.own = c.isOwn(e)
	}
	c.planAll()
}

func (c *Collector) isOwn(e *kept) bool {
	return slices.Contains(c.config.Own, e.Namespace+"/"+e.Name)
}

// Listing says that a list of a type begins.
func (c *Collector) Listing(now time.Time, t gc.Type) {
	c.now = now
	if !isNode(t) {
		c.t = t
		c.leases.Listing()
		return
	}
	c.nodes.listing(t)
	c.planAll() // a Node may be there that the list has yet to tell of
}

// Observe takes a Lease or a Node as a list or a watch tells it. fields of the former is
// a [Lease].
func (c *Collector) Observe(now time.Time, t gc.Type, o gc.Object, fields any) {
	c.now = now
	if isNode(t) {
		if c.nodes.observe(t, o) {
			c.planNamed(o.Name)
		}
		return
	}
	c.t = t
	e, changed := c.leases.Observe(o, func() *kept { return &kept{missing: gc.NoStamp} })
	if !changed {
		return
	}
	e.set(o, fields)
	if e.own = c.isOwn(e); e.ofNode {
		c.name(e)
	}
	c.queue.Changed(e)
	c.plan(e)
}

// name the Lease of a Node. Who had the name before is gone.
func (c *Collector) name(e *kept) {
	if old := c.byName[e.Name]; old != nil && old != e {
		c.leases.Forget(old.UID)
		c.drop(old)
	}
	c.byName[e.Name] = e
}

func (e *kept) set(o gc.Object, fields any) {
	lease, known := fields.(Lease)
	e.ofNode = e.Namespace == "kube-node-lease"
	e.holds = known && (lease.Holder == "" || lease.Holder == e.Name)
	e.owned, e.terminating = len(o.Owners) > 0, o.Terminating
	e.identity = lease.Identity || e.Namespace == "kube-system" && (gc.Patterns{"apiserver-*"}).Match(e.Name)
	e.expires, e.absent = gc.StampOf(lease.Expires), false
}

// Forget takes a DELETED event.
func (c *Collector) Forget(now time.Time, t gc.Type, o gc.Object) {
	c.now = now
	if isNode(t) {
		if c.nodes.forget(o) {
			c.planNamed(o.Name)
		}
	} else if e, known := c.leases.Forget(o.UID); known {
		c.drop(e)
	}
}

func (c *Collector) drop(e *kept) {
	c.queue.Drop(e)
	if c.byName[e.Name] == e {
		delete(c.byName, e.Name)
	}
}

// Synced says that the objects of a type are known up to now.
func (c *Collector) Synced(now time.Time, t gc.Type) {
	c.now = now
	if isNode(t) {
		c.nodes.synced(t)
	} else {
		c.t, c.current = t, true
		c.leases.Synced(c.drop)
	}
	c.planAll()
}

// Unreadable says that a type cannot be listed or watched now: what is known of it is
// old, and nothing is asked for.
func (c *Collector) Unreadable(now time.Time, t gc.Type) {
	c.now = now
	if isNode(t) {
		c.nodes.known = false
	} else {
		c.current = false
	}
	c.planAll()
}

// Restored forgets everything: etcd was restored.
func (c *Collector) Restored(now time.Time) {
	c.now, c.current = now, false
	c.leases.Restored(c.drop)
	c.nodes.restored()
}

// Len is how many Leases and Nodes are known.
func (c *Collector) Len() int { return c.leases.Len() + len(c.nodes.present) }
