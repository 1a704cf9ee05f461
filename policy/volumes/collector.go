package volumes

import (
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/leases"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// Collector knows all PersistentVolumes, and what bears on them. It is not safe for
// concurrent use.
type Collector struct {
	gc.Collection[*kept] // PersistentVolumes, VolumeAttachments, CSINodes
	config               Config

	claims  gc.Names[claimed]  // by namespace/name, each with what it says
	nodes   gc.Names[struct{}] // by name
	leases  leases.Signs       // of Nodes
	drivers gc.Names[struct{}] // CSIDrivers by name
	classes gc.Names[string]   // StorageClasses, each with its provisioner
	known   map[string]bool

	index   index
	blind   int // volumes, claims and attachments whose fields could not be read
	counts  map[gc.Reason]int
	calls   map[uint64]call    // DeleteVolumes on their way
	resting map[string]*rest   // drivers that cannot serve
	words   map[string]string  // those that many objects share
	byNode  map[string][]*kept // attachments and CSINodes
	lost    map[string]*nodes.Loss
	losses  nodes.Losses
}

// call is a DeleteVolume on its way.
type call struct{ uid, driver string }

// rest of a driver.
type rest struct {
	until time.Time
	pause time.Duration
}

// kept is what is known of an object.
type kept struct {
	gc.Entry
	kind        kind
	why         gc.Reason // when it was judged last
	terminating bool
	owned       bool
	volume      *volume
	left        *left
}

type kind uint8

const (
	aVolume kind = iota
	anAttachment
	aCSINode
	others
)

func kindOf(t gc.Type) kind {
	switch t.Kind {
	case "PersistentVolume":
		return aVolume
	case "VolumeAttachment":
		return anAttachment
	case "CSINode":
		return aCSINode
	}
	return others
}

// New makes an empty collector.
func New(config Config) *Collector {
	c := &Collector{
		config: config, known: map[string]bool{}, index: newIndex(), counts: map[gc.Reason]int{},
		calls: map[uint64]call{}, resting: map[string]*rest{}, words: map[string]string{}, byNode: map[string][]*kept{}, lost: map[string]*nodes.Loss{},
	}
	c.losses = nodes.Losses{MaxShare: config.maxShare(), Changed: func(l *nodes.Loss) { c.planNode(l.Name) }}
	c.Collection = gc.NewCollection(gc.Rules[*kept]{Decide: c.decide, Act: c.act, Before: c.before, Gone: c.gone})
	c.claims.Gone, c.classes.Gone = c.claimWent, c.classWent
	c.drivers.Gone = func(name string, _ struct{}) { c.driverWent(name) }
	c.nodes.Gone = func(name string, _ struct{}) {
		c.losses.AddPresent(-1)
		c.planNode(name)
	}
	c.leases.Init(c.PlanAll, c.planNode)
	c.Beside("Lease", &c.leases)
	c.Beside("PersistentVolumeClaim", &c.claims)
	c.Beside("Node", &c.nodes)
	c.Beside("CSIDriver", &c.drivers)
	c.Beside("StorageClass", &c.classes)
	return c
}

// Configure takes another configuration: all is judged anew.
func (c *Collector) Configure(now time.Time, config Config) {
	c.Tell(now)
	c.config = config
	c.losses.SetShare(config.maxShare())
	clear(c.resting) // whoever configures may have fixed it
	for e := range c.Objects().All {
		if e.volume != nil {
			e.volume.failures, e.volume.retry = 0, time.Time{}
		}
	}
	c.PlanAll()
}

func (c *Collector) serves(driver string) bool { return slices.Contains(c.config.Serve, driver) }

// word gives one copy of what many objects say.
func (c *Collector) word(s string) string {
	if w, known := c.words[s]; known {
		return w
	}
	s = cloned(s)
	c.words[s] = s
	return s
}

// before it is judged anew: since when its Node is missing, and what is made of it now.
func (c *Collector) before(e *kept) {
	if e.left != nil {
		c.miss(e.left)
		c.reckon(e.left.node)
	}
	c.recount(e)
}

func (c *Collector) recount(e *kept) {
	why, _ := c.decide(e)
	if why == e.why {
		return
	}
	c.uncount(e)
	e.why = why
	c.counts[why]++
}

func (c *Collector) uncount(e *kept) {
	if e.why == "" {
		return
	}
	if c.counts[e.why]--; c.counts[e.why] == 0 {
		delete(c.counts, e.why)
	}
	e.why = ""
}

// gone is an object that was forgotten.
func (c *Collector) gone(e *kept) {
	c.uncount(e)
	if e.volume != nil {
		c.unindex(e)
		c.unseen(e.volume.unread, false)
	} else {
		c.unleave(e)
		c.reckon(e.left.node)
		c.unseen(e.left.unread, false)
	}
}

func (c *Collector) decide(e *kept) (gc.Reason, time.Time) {
	if e.volume != nil {
		return c.decideVolume(e)
	}
	return c.decideLeft(e)
}

// Len is how many objects are known.
func (c *Collector) Len() int {
	return c.Collection.Len() + c.claims.Len() + c.nodes.Len() + c.leases.Len() + c.drivers.Len() + c.classes.Len()
}
