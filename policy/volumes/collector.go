package volumes

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// Collector knows all PersistentVolumes and everything that affects them. It is not safe for
// concurrent use.
type Collector struct {
	gc.Collection[*kept] // PersistentVolumes, VolumeAttachments, CSINodes
	config               Config

	claims  gc.Names[claimed]  // by namespace/name, each with its fields
	nodes   nodes.Knowledge    // by name
	leases  nodes.Signs        // of Nodes
	drivers gc.Names[struct{}] // CSIDrivers by name
	classes gc.Names[string]   // StorageClasses, each with its provisioner

	index   index
	blind   int                // volumes, claims and attachments whose fields could not be read
	calls   map[uint64]call    // DeleteVolumes in flight
	calling gc.Tally           // the same, by driver
	waiting map[string][]*kept // volumes that wait for an answer of their driver
	resting map[string]*rest   // drivers that cannot serve
	words   gc.Words
	bound   map[string]*node // Nodes of attachments and CSINodes, by name

	reckoning bool // all Nodes are being reckoned
}

// claimed is what is kept of a PersistentVolumeClaim.
type claimed struct {
	volume string // the volume that it names
	blind  bool   // its fields could not be read
}

// call is a DeleteVolume in flight.
type call struct{ uid, version, driver string }

// rest is the pause of a driver.
type rest struct {
	until time.Time
	pause time.Duration
}

// kept is what is known of an object: a volume, or what a Node left.
type kept struct {
	gc.Entry
	terminating bool
	owned       bool
	waits       bool // in Collector.waiting
	volume      *volume
	left        *left
}

// New makes an empty collector.
func New(config Config) *Collector {
	c := &Collector{
		config: config, index: newIndex(),
		calls: map[uint64]call{}, calling: gc.Tally{}, waiting: map[string][]*kept{}, resting: map[string]*rest{}, bound: map[string]*node{},
	}
	c.Collection = gc.NewCollection(gc.Rules[*kept]{Decide: c.decide, Act: c.act, Room: c.room, Before: c.before, Gone: c.gone, Goes: goes, Whole: true})
	c.claims.Gone, c.classes.Gone = c.claimWent, c.classWent
	c.drivers.Gone = func(name string, _ struct{}) { c.driverWent(name) }
	c.claims.News, c.classes.News, c.drivers.News = c.PlanAll, c.PlanAll, c.PlanAll
	c.nodes.Init(config.MaxShare, c.planNodes, c.planNode)
	c.leases.Init(c.PlanAll, c.planNode)
	c.Beside("Lease", &c.leases)
	c.Beside("PersistentVolumeClaim", &c.claims)
	c.Beside("Node", &c.nodes)
	c.Beside("CSIDriver", &c.drivers)
	c.Beside("StorageClass", &c.classes)
	return c
}

// goes: while Pods are bound to a Node, what it left is looked at again at its time, not deleted.
func goes(why gc.Reason) bool { return why != PodsBound }

// Configure replaces the configuration and judges all objects again.
func (c *Collector) Configure(now time.Time, config Config) {
	c.SetTime(now)
	c.config = config
	c.nodes.SetShare(config.MaxShare)
	c.nodes.Weigh()
	clear(c.resting) // the operator may have fixed the driver
	for e := range c.Objects().All {
		if e.volume != nil {
			e.volume.failures, e.volume.retry = 0, time.Time{}
		}
	}
	c.PlanAll()
}

// planNodes is called when Nodes became known or unknown. All are reckoned before they are weighed.
func (c *Collector) planNodes() {
	c.reckoning = true
	c.PlanAll()
	c.reckoning = false
	c.nodes.Weigh()
}

// before is called before e is judged. It updates since when the Node of e is missing, and
// whether that Node is lost.
func (c *Collector) before(e *kept) {
	if l := e.left; l != nil && l.node == nil {
		l.Miss(c.Now(), false)
	} else if l != nil {
		l.Miss(c.Now(), c.nodes.Missing(l.node.Name))
		l.bound = l.bound && l.Since > 0
		c.reckon(l.node)
	}
}

// gone removes a forgotten object from everything that refers to it.
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

// Len returns how many objects are known.
func (c *Collector) Len() int {
	return c.Collection.Len() + c.claims.Len() + c.nodes.Len() + c.leases.Len() + c.drivers.Len() + c.classes.Len()
}
