package pods

import (
	"math"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// Collector knows all Pods and Nodes, and which Pods are to be deleted. It is not safe for
// concurrent use.
type Collector struct {
	config   Config
	pods     *gc.UIDIndex[*pod]
	texts    gc.UIDTexts // of the UIDs of the Pods
	spaces   map[string]*namespace
	podsRead reading
	all      *group
	owners   [2]map[gc.UID]*group // by owner: of Pods that succeeded, and that failed
	nodes    nodes.Knowledge      // the flag: out of service, and not ready
	bound    map[string]*node
	reads    gc.Queue[*node]
	queue    gc.Queue[*task]
	failing  map[uint64]*pod // by the ID of the FailPod in flight
	now      time.Time
}

// reading is what is known of the lists and watches of a type.
type reading struct {
	t        gc.Type
	epoch    uint32
	complete bool
}

// New makes an empty collector.
func New(config Config) *Collector {
	c := &Collector{config: config.withDefaults()}
	c.nodes.Init(config.MaxShare, c.reckonAll, c.nodeMoved)
	c.reset()
	return c
}

func (c *Collector) reset() {
	c.pods, c.texts = gc.NewUIDIndex(func(p *pod) gc.UID { return p.uid }), make(gc.UIDTexts)
	c.spaces, c.bound = make(map[string]*namespace), make(map[string]*node)
	c.all, c.owners = newGroup(inAll), [2]map[gc.UID]*group{{}, {}}
	c.podsRead.complete = false
	c.failing = make(map[uint64]*pod)
}

// Configure replaces the configuration and judges all Pods again.
func (c *Collector) Configure(now time.Time, config Config) {
	c.now = now
	for p := range c.pods.All {
		c.uncount(p)
	}
	c.config = config.withDefaults()
	c.nodes.SetShare(config.MaxShare)
	for _, s := range c.spaces {
		s.kept = c.keeps(s.name)
	}
	for p := range c.pods.All {
		c.count(p)
	}
	c.reckonAll()
	for _, n := range c.bound {
		c.quarantine(n)
	}
	c.planAll()
}

// keeps returns why nothing in a namespace is collected; "" if its Pods are.
func (c *Collector) keeps(namespace string) gc.Reason {
	switch {
	case c.config.Excluded.Match(namespace):
		return Excluded
	case len(c.config.Namespaces) > 0 && !c.config.Namespaces.Match(namespace):
		return OtherNamespace
	}
	return ""
}

// Listing records that a list begins. Once it is complete, objects that it did not have are
// gone.
func (c *Collector) Listing(now time.Time, t gc.Type) {
	c.now = now
	switch t.Kind {
	case "Pod":
		c.podsRead = reading{t, c.podsRead.epoch + 1, false}
	case "Node":
		c.nodes.Listing(t)
	}
}

// Synced records that a list is complete, and drops the Pods that it did not have.
func (c *Collector) Synced(now time.Time, t gc.Type) {
	c.now = now
	switch t.Kind {
	case "Pod":
		c.podsRead.t, c.podsRead.complete = t, true
		var gone []*pod
		for p := range c.pods.All {
			if p.epoch != c.podsRead.epoch {
				gone = append(gone, p)
			}
		}
		for _, p := range gone {
			c.drop(p)
		}
		c.planAll()
	case "Node":
		c.nodes.Synced(t)
	}
}

// Unreadable records that a type cannot be read now. Its known state is old, so nothing is
// done that needs the complete state.
func (c *Collector) Unreadable(now time.Time, t gc.Type) {
	c.now = now
	switch t.Kind {
	case "Pod":
		c.podsRead.complete = false
	case "Node":
		c.nodes.Unreadable(t)
	}
}

// Restored forgets everything: etcd was restored, and lists follow.
func (c *Collector) Restored(now time.Time) {
	c.now = now
	for t := range c.tasks {
		c.queue.Drop(t)
	}
	for _, n := range c.bound {
		c.reads.Drop(n)
	}
	c.nodes.Restored()
	c.reset()
}

func (c *Collector) tasks(yield func(*task) bool) {
	for p := range c.pods.All {
		if p.task != nil && !yield(p.task) {
			return
		}
	}
}

// Observe receives a Pod or a Node as a list or a watch reported it. fields is a [Pod] or a
// [Node]. With anything else, a Pod is forgotten, and a Node counts as in service.
func (c *Collector) Observe(now time.Time, t gc.Type, o gc.Object, fields any) {
	c.now = now
	switch t.Kind {
	case "Pod":
		if f, ok := fields.(Pod); ok && len(o.Name) <= math.MaxUint8 {
			c.podsRead.t = t
			c.observePod(o, f)
		} else {
			c.Forget(now, t, o)
		}
	case "Node":
		f, _ := fields.(Node)
		c.nodes.Observe(t, o, f.OutOfService && !f.Ready)
	}
}

// Forget takes a DELETED event.
func (c *Collector) Forget(now time.Time, t gc.Type, o gc.Object) {
	c.now = now
	switch t.Kind {
	case "Pod":
		if p := c.pods.Get(gc.UIDOf(o.UID)); p != nil {
			c.drop(p)
		}
	case "Node":
		c.nodes.Forget(o)
	}
}

func (c *Collector) observePod(o gc.Object, f Pod) {
	u := c.texts.Keep(o.UID)
	p := c.pods.Get(u)
	fresh := p == nil
	if fresh {
		p = &pod{uid: u, space: c.enter(o.Namespace)}
		c.pods.Set(u, p)
	}
	p.epoch = c.podsRead.epoch
	if !fresh && p.version() == o.ResourceVersion {
		return
	}
	if p.task != nil {
		c.queue.Changed(p.task)
	}
	was := p.node
	c.uncount(p)
	p.set(refused, false)
	p.rename(o)
	p.learn(o, f, c.now)
	c.bind(p, f.Node)
	if p.over() {
		c.taskOf(p).owner = ownerOf(o)
	}
	c.count(p)
	if p.node != was {
		c.arrived(p)
	}
	c.touched(was, p.node)
	c.plan(p)
	if p.is(terminating|noGrace) && !p.is(finalizers) && p.task != nil {
		c.queue.Wait(p.task, c.now.Add(vanishes))
	}
}

// vanishes is how long the API server may take to remove a Pod whose deletion without grace
// it has reported: it writes that first. If the Pod stays longer, the API server ended
// between the two.
const vanishes = 30 * time.Second

// rename stores name and version, in memory of its own.
func (p *pod) rename(o gc.Object) {
	p.text, p.named = strings.Join([]string{o.Name, o.ResourceVersion}, ""), uint8(len(o.Name))
}

func (p *pod) learn(o gc.Object, f Pod, now time.Time) {
	ended := p.ended
	p.generation = f.Generation
	p.phase, p.created, p.ended = phaseOf(f.Phase), seconds(f.Created), seconds(f.Ended)
	if p.over() && p.ended == 0 {
		if p.ended = ended; ended == 0 {
			p.ended = seconds(now) // it was over by then
		}
	}
	p.set(terminating, o.Terminating)
	p.set(finalizers, len(o.Finalizers) > 0)
	p.set(noGrace, f.NoGrace)
	p.set(evicted, f.Evicted)
}

func ownerOf(o gc.Object) (u gc.UID) {
	if len(o.Owners) > 0 {
		u = gc.UIDOf(o.Owners[0].UID)
	}
	return u
}

func (c *Collector) enter(name string) *namespace {
	s := c.spaces[name]
	if s == nil {
		name = strings.Clone(name) // names come in batches that share their memory
		s = &namespace{name: name, kept: c.keeps(name)}
		c.spaces[name] = s
	}
	s.pods++
	return s
}

func (c *Collector) drop(p *pod) {
	c.uncount(p)
	was := p.node
	c.bind(p, "")
	c.touched(was)
	if p.task != nil {
		c.queue.Drop(p.task)
		p.task = nil
	}
	if p.space.pods--; p.space.pods == 0 {
		delete(c.spaces, p.space.name)
	}
	c.pods.Set(p.uid, nil)
	delete(c.texts, p.uid)
}

func (c *Collector) taskOf(p *pod) *task {
	if p.task == nil {
		p.task = &task{pod: p}
	}
	return p.task
}
