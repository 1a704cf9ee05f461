package volumes

import (
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// Collector knows all PersistentVolumes, and what bears on them. It is not safe for
// concurrent use.
type Collector struct {
	gc.Collection[*kept] // PersistentVolumes, VolumeAttachments, CSINodes
	config               Config

	claims  gc.Names[claimed]  // by namespace/name, each with what it says
	nodes   nodes.Knowledge    // by name
	leases  nodes.Signs        // of Nodes
	drivers gc.Names[struct{}] // CSIDrivers by name
	classes gc.Names[string]   // StorageClasses, each with its provisioner

	index   index
	blind   int               // volumes, claims and attachments whose fields could not be read
	calls   map[uint64]call   // DeleteVolumes on their way
	resting map[string]*rest  // drivers that cannot serve
	words   map[string]string // those that many objects share
	bound   map[string]*node  // Nodes that have left something, by name
}

// claimed is what is kept of a claim.
type claimed struct {
	volume string // that it names
	blind  bool   // its fields could not be read
}

// call is a DeleteVolume on its way.
type call struct{ uid, driver string }

// rest of a driver.
type rest struct {
	until time.Time
	pause time.Duration
}

// kept is what is known of an object: a volume, or left of a Node.
type kept struct {
	gc.Entry
	terminating bool
	owned       bool
	volume      *volume
	left        *left
}

// New makes an empty collector.
func New(config Config) *Collector {
	c := &Collector{
		config: config, index: newIndex(),
		calls: map[uint64]call{}, resting: map[string]*rest{}, words: map[string]string{}, bound: map[string]*node{},
	}
	c.Collection = gc.NewCollection(gc.Rules[*kept]{Decide: c.decide, Act: c.act, Before: c.before, Gone: c.gone, Whole: true})
	c.claims.Gone, c.classes.Gone = c.claimWent, c.classWent
	c.drivers.Gone = func(name string, _ struct{}) { c.driverWent(name) }
	c.claims.News, c.classes.News, c.drivers.News = c.PlanAll, c.PlanAll, c.PlanAll
	c.nodes.Init(config.MaxShare, c.PlanAll, c.planNode)
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
	c.nodes.SetShare(config.MaxShare)
	clear(c.resting) // whoever configures may have fixed it
	for e := range c.Objects().All {
		if e.volume != nil {
			e.volume.failures, e.volume.retry = 0, time.Time{}
		}
	}
	c.PlanAll()
}

// word gives one copy of what many objects say.
func (c *Collector) word(s string) string {
	if w, known := c.words[s]; known {
		return w
	}
	s = strings.Clone(s)
	c.words[s] = s
	return s
}

// before it is judged anew: since when its Node is missing, and what is made of that now.
func (c *Collector) before(e *kept) {
	if l := e.left; l != nil && l.node == nil {
		l.Miss(c.Now(), false)
	} else if l != nil {
		l.Miss(c.Now(), c.nodes.Missing(l.node.Name))
		c.reckon(l.node)
	}
}

// gone is an object that was forgotten.
func (c *Collector) gone(e *kept) {
	if e.volume != nil {
		c.file(e, take)
		c.unseen(e.volume.unread, false)
	} else {
		c.unleave(e)
		if e.left.node != nil {
			c.reckon(e.left.node)
		}
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
