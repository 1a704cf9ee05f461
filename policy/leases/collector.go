package leases

import (
	"regexp"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// Collector knows all Leases and Nodes. It is not safe for concurrent use.
type Collector struct {
	gc.Collection[*kept] // Leases
	config               Config
	nodes                nodes.Knowledge
}

// kept is what is known of a Lease.
type kept struct {
	nodes.Sign
	// Absence is that of its Node. That of the Pod that holds an election begins when a live read found the
	// Pod: no Pods are watched.
	nodes.Absence
	holder      string // that Pod's name; "": nobody holds it
	known       bool   // whether that is so
	changed     bool   // since its Pod was read: the answer is about another one
	ofNode      bool   // it is in the namespace of such Leases
	holds       bool   // its holder is the Node, or nobody
	owned       bool
	terminating bool
	identity    bool
}

// New makes an empty collector.
func New(config Config) *Collector {
	c := &Collector{config: config}
	c.Collection = gc.NewCollection(gc.Rules[*kept]{Decide: c.decide, Act: c.act, Before: c.miss, Named: func(e *kept) bool { return e.ofNode }})
	c.nodes.Init(0, c.PlanAll, func(name string) {
		if e := c.Named(name); e != nil {
			c.Plan(e)
		}
	})
	c.Beside("Node", &c.nodes)
	return c
}

// Configure takes another configuration: all Leases are judged anew.
func (c *Collector) Configure(now time.Time, config Config) {
	c.Tell(now)
	c.config = config
	c.PlanAll()
}

// Observe takes a Lease or a Node as a list or a watch reported it. fields of the former is
// a [Lease].
func (c *Collector) Observe(now time.Time, t gc.Type, o gc.Object, fields any) {
	if t.Kind == "Node" {
		c.Tell(now)
		c.nodes.Observe(t, o, false)
		return
	}
	c.See(now, t, o, func() *kept { return new(kept) }, func(e *kept) { e.set(now, o, fields) })
}

func (e *kept) set(now time.Time, o gc.Object, fields any) {
	lease, known := fields.(Lease)
	e.ofNode = e.Namespace == nodes.LeaseNamespace
	e.holds = known && (lease.Holder == "" || lease.Holder == e.Name)
	before, knew := e.holder, e.known
	if e.holder, e.known = "", known; !e.ofNode {
		e.holder, e.known = podOf(lease.Holder)
		e.holder, e.known = strings.Clone(e.holder), e.known && known
		e.changed = e.changed || knew && e.holder != before
	}
	e.owned, e.terminating = len(o.Owners) > 0, o.Terminating
	e.identity = lease.Identity || e.Namespace == "kube-system" && strings.HasPrefix(e.Name, "apiserver-")
	if e.Doubt(); e.ofNode {
		e.Write(now, fields, false)
	} else {
		e.Last = gc.StampOf(lease.Expires)
	}
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
