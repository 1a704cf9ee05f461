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
	// Absence is that of its Node or, for an election, of the Pod that holds it. Pods are not watched, so
	// the absence of a Pod begins when a live read finds the Pod.
	nodes.Absence
	holder      string // the Pod's name; "": it has no holder
	known       bool   // holder is reliable
	changed     bool   // holder changed since the read was asked for
	ofNode      bool   // it is in nodes.LeaseNamespace
	holds       bool   // its holder is the Node, or it has none
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

// Configure replaces the configuration and judges all Leases again.
func (c *Collector) Configure(now time.Time, config Config) {
	c.SetTime(now)
	c.config = config
	c.PlanAll()
}

// Observe receives a Lease or a Node as a list or a watch reported it. For a Lease, fields is
// a [Lease].
func (c *Collector) Observe(now time.Time, t gc.Type, o gc.Object, fields any) {
	if t.Kind == "Node" {
		c.SetTime(now)
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

// podOf returns the name of the Pod that may be the holder of an election; "" if there is no
// holder. client-go's elections are held by the host's name, which in a Pod is the Pod's
// name, alone or before "_" and a UUID. A host's name is cut after 63 bytes. ok is false if
// holder cannot be the name of a Pod.
func podOf(holder string) (name string, ok bool) {
	name, _, _ = strings.Cut(holder, "_")
	if holder == "" {
		return "", true
	}
	return name, len(name) < 63 && podName.MatchString(name)
}

var podName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

// Len returns how many Leases and Nodes are known.
func (c *Collector) Len() int { return c.Collection.Len() + c.nodes.Len() }
