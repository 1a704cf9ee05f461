package nodes

import (
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Collector knows all Nodes, what holds them, and the last inventory. It is not safe for
// concurrent use.
type Collector struct {
	gc.Collection[*kept] // Nodes
	config               Config
	leases               Signs
	attachments          gc.Others[*attachment]
	attached             gc.Tally  // attachments, by the Node's name
	began                time.Time // when all types could be read first
	since                time.Time // since when all types can be read
	survey               survey
	deletes              map[uint64]string    // in flight: UIDs by the ID of the action
	spent                map[string]time.Time // deletions within the window, by UID
}

// kept is what is known of a Node.
type kept struct {
	gc.Entry
	providerID     string
	labels, taints []string // only of a Node that is not ready
	created        gc.Stamp
	since          gc.Stamp  // since when it is ready, or not
	beat           gc.Stamp  // its last heartbeat, by its own clock
	heard          gc.Stamp  // its last sign of life
	seen           gc.Stamp  // when it was seen first, or again after a doubt
	verified       time.Time // when the survey was asked for, for which its Lease was read live
	understood     bool
	ready          bool
	outOfService   bool
	volumes        bool
	terminating    bool
}

type attachment struct {
	gc.Entry
	node string
}

// New makes an empty collector.
func New(config Config) *Collector {
	c := &Collector{
		config: config, attached: gc.Tally{}, deletes: map[uint64]string{}, spent: map[string]time.Time{},
	}
	c.Collection = gc.NewCollection(gc.Rules[*kept]{Decide: c.decide, Act: c.act, Goes: goes, Named: func(*kept) bool { return true }})
	c.leases.Init(c.PlanAll, c.touch)
	c.attachments.Gone, c.attachments.News = func(a *attachment) { c.attach(a.node, -1) }, c.PlanAll
	c.Beside("Lease", &c.leases)
	c.Beside("VolumeAttachment", &c.attachments)
	return c
}

// Configure replaces the configuration and judges all Nodes again.
func (c *Collector) Configure(now time.Time, config Config) {
	c.SetTime(now)
	if config != c.config {
		c.survey.again, c.survey.known, c.survey.asked = time.Time{}, machines{}, time.Time{}
	}
	c.config = config
	c.PlanAll()
}

// Observe receives a Node with its [Node], a Lease with its [Lease], or a VolumeAttachment
// with its [Attachment], as a list or a watch reported it.
func (c *Collector) Observe(now time.Time, t gc.Type, o gc.Object, fields any) {
	c.SetTime(now)
	switch t.Kind {
	case "Lease":
		c.leases.Observe(now, t, o, fields)
	case "VolumeAttachment":
		c.observeAttachment(t, o, fields)
	default:
		c.See(now, t, o, func() *kept { return &kept{seen: gc.StampOf(now)} }, func(e *kept) {
			n, known := fields.(Node)
			e.set(now, o, n, known)
		})
	}
}

// set stores the fields of a Node. It shares no memory with the message. A heartbeat that
// differs from the last one is a sign of life now, whatever time it has.
func (e *kept) set(now time.Time, o gc.Object, n Node, known bool) {
	beat := gc.StampOf(n.Heard)
	if e.understood && known && e.beat != beat {
		e.heard = max(e.heard, gc.StampOf(now))
	}
	e.beat, e.heard = beat, max(e.heard, beat)
	e.understood, e.terminating, e.verified = known, o.Terminating, time.Time{}
	e.ready, e.outOfService, e.volumes = n.Ready, n.OutOfService, n.Volumes
	e.created, e.since = gc.StampOf(n.Created), gc.StampOf(n.Since)
	if e.providerID != n.ProviderID {
		e.providerID = strings.Clone(n.ProviderID)
	}
	if e.labels, e.taints = nil, nil; !n.Ready {
		e.labels, e.taints = cloned(n.Labels), cloned(n.Taints)
	}
}

func cloned(list []string) (out []string) {
	for _, s := range list {
		out = append(out, strings.Clone(s))
	}
	return out
}

func (c *Collector) observeAttachment(t gc.Type, o gc.Object, fields any) {
	a, changed := c.attachments.Observe(t, o, func() *attachment { return &attachment{} })
	if f, known := fields.(Attachment); changed && known && f.Node != a.node {
		c.attach(a.node, -1)
		a.node = strings.Clone(f.Node)
		c.attach(a.node, 1)
	}
}

func (c *Collector) attach(node string, n int) {
	c.attached.Add(node, n)
	c.touch(node)
}

// touch judges the Node of a name again, because something that its verdict depends on
// changed.
func (c *Collector) touch(name string) {
	if e := c.Named(name); e != nil {
		e.verified = time.Time{}
		c.Plan(e)
	}
}

// Synced records that all objects of a type are known.
func (c *Collector) Synced(now time.Time, t gc.Type) {
	was := c.readable()
	c.Collection.Synced(now, t)
	if !was && c.readable() {
		if c.since = now; c.began.IsZero() {
			c.began = now
		}
		c.PlanAll()
	}
}

// readable reports whether all types are known at present.
func (c *Collector) readable() bool {
	return c.Objects().Known() && c.leases.Known() && c.attachments.Known()
}

// Restored forgets everything, because etcd was restored. It keeps the size of the last
// inventory, which does not come from etcd.
func (c *Collector) Restored(now time.Time) {
	c.Collection.Restored(now)
	c.survey = survey{size: c.survey.size}
}

// Len returns how many objects are kept.
func (c *Collector) Len() int { return c.Collection.Len() + c.leases.Len() + c.attachments.Len() }

// Counts returns how many Nodes are stale, by reason.
func (c *Collector) Counts(now time.Time) map[gc.Reason]int {
	c.SetTime(now)
	n := make(map[gc.Reason]int, len(Stale))
	for _, why := range Stale {
		n[why] = 0
	}
	for e := range c.Objects().All {
		if why, _ := c.decide(e); slices.Contains(Stale, why) {
			n[why]++
		}
	}
	return n
}
