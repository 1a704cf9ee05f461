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
	nodes                gc.Names[struct{}]
}

// kept is what is known of a Lease.
type kept struct {
	gc.Entry
	expires     gc.Stamp
	seen        bool     // in an earlier version
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
	c := &Collector{config: config, byName: make(map[string]*kept)}
	c.Collection = gc.NewCollection(gc.Rules[*kept]{Decide: c.decide, Act: c.act, Before: c.miss, Gone: c.unname})
	c.nodes.Gone, c.nodes.News = func(name string, _ struct{}) { c.planNamed(name) }, c.PlanAll
	c.Beside("Node", &c.nodes)
	return c
}

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

// Observe takes a Lease or a Node as a list or a watch reported it. fields of the former is
// a [Lease].
func (c *Collector) Observe(now time.Time, t gc.Type, o gc.Object, fields any) {
	if t.Kind == "Node" {
		c.Tell(now)
		if _, was := c.nodes.Observe(t, o, struct{}{}); !was {
			c.planNamed(o.Name)
		}
		return
	}
	c.See(now, t, o, func() *kept { return &kept{missing: gc.NoStamp, lives: gc.NoStamp} }, func(e *kept) {
		e.set(now, o, fields)
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

func (e *kept) set(now time.Time, o gc.Object, fields any) {
	lease, known := fields.(Lease)
	e.ofNode = e.Namespace == namespace
	e.holds = known && (lease.Holder == "" || lease.Holder == e.Name)
	if e.holder, e.known = "", known; !e.ofNode {
		e.holder, e.known = podOf(lease.Holder)
		e.holder, e.known = strings.Clone(e.holder), e.known && known
	}
	e.owned, e.terminating = len(o.Owners) > 0, o.Terminating
	e.identity = lease.Identity || e.Namespace == "kube-system" && (gc.Patterns{"apiserver-*"}).Match(e.Name)
	if e.expires, e.absent = gc.StampOf(lease.Expires), false; e.ofNode && e.seen {
		e.expires = max(e.expires, gc.StampOf(now)) // somebody writes it, whatever its clock says
	}
	e.seen = true
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

// Len is how many Leases and Nodes are known.
func (c *Collector) Len() int { return c.Collection.Len() + c.nodes.Len() }
