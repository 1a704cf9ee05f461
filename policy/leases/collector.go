package leases

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Collector knows all Leases and Nodes. It is not safe for concurrent use.
type Collector struct {
	gc.Collection[*kept] // Leases
	config               Config
	byName               map[string]*kept // those of Nodes
	nodes                nodes
}

// kept is what is known of a Lease.
type kept struct {
	gc.Entry
	expires     gc.Stamp
	missing     gc.Stamp // since then, its Node is
	lives       gc.Stamp // then a live read found the Pod that holds an election
	holder      string   // that Pod's name; "": nobody holds it
	known       bool     // whether that is so
	read        gc.Stamp // when its Node, or that Pod, was read live
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
	c := &Collector{config: config, byName: make(map[string]*kept), nodes: nodes{present: make(map[string]*node)}}
	c.Collection = gc.NewCollection(gc.Rules[*kept]{Decide: c.decide, Act: c.act, Before: c.miss, Gone: c.unname})
	return c
}

func isNode(t gc.Type) bool { return t.Kind == "Node" }

// Configure takes another configuration: all Leases are judged anew.
func (c *Collector) Configure(now time.Time, config Config) {
	c.Tell(now)
	c.config = config
	for e := range c.Objects().All {
		e.own = c.isOwn(e)
	}
	c.PlanAll()
}

func (c *Collector) isOwn(e *kept) bool {
	return slices.Contains(c.config.Own, e.Namespace+"/"+e.Name)
}

// Listing says that a list of a type begins.
func (c *Collector) Listing(now time.Time, t gc.Type) {
	if !isNode(t) {
		c.Collection.Listing(now, t)
		return
	}
	c.Tell(now)
	c.nodes.listing(t)
	c.PlanAll() // a Node may be there that the list has yet to tell of
}

// Observe takes a Lease or a Node as a list or a watch tells it. fields of the former is
// a [Lease].
func (c *Collector) Observe(now time.Time, t gc.Type, o gc.Object, fields any) {
	if isNode(t) {
		c.Tell(now)
		if c.nodes.observe(t, o) {
			c.planNamed(o.Name)
		}
		return
	}
	c.See(now, t, o, func() *kept { return &kept{missing: gc.NoStamp, lives: gc.NoStamp} }, func(e *kept) {
		e.set(o, fields)
		if e.own = c.isOwn(e); e.ofNode {
			c.name(e)
		}
	})
}

// name the Lease of a Node. Who had the name before is gone.
func (c *Collector) name(e *kept) {
	if old := c.byName[e.Name]; old != nil && old != e {
		c.Drop(old.UID)
	}
	c.byName[e.Name] = e
}

func (c *Collector) unname(e *kept) {
	if c.byName[e.Name] == e {
		delete(c.byName, e.Name)
	}
}

func (e *kept) set(o gc.Object, fields any) {
	lease, known := fields.(Lease)
	e.ofNode = e.Namespace == "kube-node-lease"
	e.holds = known && (lease.Holder == "" || lease.Holder == e.Name)
	if e.holder, e.known = "", known; !e.ofNode {
		e.holder, e.known = podOf(lease.Holder)
		e.holder, e.known = strings.Clone(e.holder), e.known && known
	}
	e.owned, e.terminating = len(o.Owners) > 0, o.Terminating
	e.identity = lease.Identity || e.Namespace == "kube-system" && (gc.Patterns{"apiserver-*"}).Match(e.Name)
	e.expires, e.absent = gc.StampOf(lease.Expires), false
}

// podOf is the Pod that the holder of an election may be: client-go's elections are held
// by the host's name, which in a Pod is its name, alone or before "_" and a UUID. A host's
// name is cut after 63 bytes. ok is false if it cannot be the name of one; "" is nobody.
func podOf(holder string) (name string, ok bool) {
	name, _, _ = strings.Cut(holder, "_")
	if holder == "" {
		return "", true
	}
	return name, len(name) < 63 && podName.MatchString(name)
}

var podName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

// Forget takes a DELETED event.
func (c *Collector) Forget(now time.Time, t gc.Type, o gc.Object) {
	if !isNode(t) {
		c.Collection.Forget(now, t, o)
		return
	}
	c.Tell(now)
	if c.nodes.forget(o) {
		c.planNamed(o.Name)
	}
}

// Synced says that the objects of a type are known up to now.
func (c *Collector) Synced(now time.Time, t gc.Type) {
	if !isNode(t) {
		c.Collection.Synced(now, t)
		return
	}
	c.Tell(now)
	c.nodes.synced(t)
	c.PlanAll()
}

// Unreadable says that a type cannot be listed or watched now: what is known of it is
// old, and nothing is asked for.
func (c *Collector) Unreadable(now time.Time, t gc.Type) {
	if !isNode(t) {
		c.Collection.Unreadable(now, t)
		return
	}
	c.Tell(now)
	c.nodes.known = false
	c.PlanAll()
}

// Restored forgets everything: etcd was restored.
func (c *Collector) Restored(now time.Time) {
	c.Collection.Restored(now)
	c.nodes.restored()
}

// Len is how many Leases and Nodes are known.
func (c *Collector) Len() int { return c.Collection.Len() + len(c.nodes.present) }
