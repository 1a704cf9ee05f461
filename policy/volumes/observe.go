package volumes

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Listing says that a list of a type begins. An object may be there that it has yet to
// tell of.
func (c *Collector) Listing(now time.Time, t gc.Type) {
	c.Tell(now)
	c.known[t.Kind] = false
	switch t.Kind {
	case "PersistentVolumeClaim":
		c.claims.listing()
	case "Node":
		c.nodeOf = t
		c.nodes.listing()
	case "CSIDriver":
		c.drivers.listing()
	case "StorageClass":
		c.classes.listing()
	default:
		c.Collection.Listing(now, t)
	}
	c.PlanAll()
}

// Observe takes an object as a list or a watch tells it; fields: see types.go.
func (c *Collector) Observe(now time.Time, t gc.Type, o gc.Object, fields any) {
	c.Tell(now)
	switch t.Kind {
	case "PersistentVolumeClaim":
		claim, read := fields.(Claim)
		key := o.Namespace + "/" + o.Name
		before, _ := c.claims.observe(key, o.UID, claimed{claim.Volume, !read})
		c.index.wanted.add(before.volume, -1)
		c.index.wanted.add(claim.Volume, 1)
		c.planClaim(key, before.volume, claim.Volume)
		c.unseen(before.blind, !read)
	case "Node":
		c.nodeOf = t
		if _, was := c.nodes.observe(o.Name, o.UID, struct{}{}); !was {
			c.planNode(o.Name)
		}
	case "CSIDriver":
		if _, was := c.drivers.observe(o.Name, o.UID, struct{}{}); !was && c.index.drivers.add(cloned(o.Name), 1) {
			c.PlanAll()
		}
	case "StorageClass":
		class, _ := fields.(Class)
		before, _ := c.classes.observe(o.Name, o.UID, string(class))
		went := c.index.classes.add(before, -1)
		if came := c.index.classes.add(string(class), 1); went || came {
			c.PlanAll()
		}
	default:
		c.See(now, t, o, func() *kept { return &kept{kind: kindOf(t)} }, func(e *kept) { c.learn(e, o, fields) })
	}
}

// learn what an object says now.
func (c *Collector) learn(e *kept, o gc.Object, fields any) {
	e.terminating, e.owned = o.Terminating, len(o.Owners) > 0
	if e.kind == aVolume {
		c.learnVolume(e, o, fields)
	} else {
		c.learnLeft(e, fields)
	}
}

// Forget takes a DELETED event.
func (c *Collector) Forget(now time.Time, t gc.Type, o gc.Object) {
	c.Tell(now)
	switch t.Kind {
	case "PersistentVolumeClaim":
		key := o.Namespace + "/" + o.Name
		if before, was := c.claims.forget(key, o.UID); was {
			c.claimWent(key, before)
		}
	case "Node":
		if _, was := c.nodes.forget(o.Name, o.UID); was {
			c.planNode(o.Name)
		}
	case "CSIDriver":
		if _, was := c.drivers.forget(o.Name, o.UID); was {
			c.driverWent(o.Name, struct{}{})
		}
	case "StorageClass":
		if before, was := c.classes.forget(o.Name, o.UID); was {
			c.classWent(o.Name, before)
		}
	default:
		c.Collection.Forget(now, t, o)
	}
}

func (c *Collector) claimWent(key string, before claimed) {
	c.index.wanted.add(before.volume, -1)
	c.planClaim(key, before.volume, "")
	c.unseen(before.blind, false)
}

// unseen counts an object whose fields could not be read: it may bear on any volume.
func (c *Collector) unseen(before, now bool) {
	was := c.blind
	if before {
		c.blind--
	}
	if now {
		c.blind++
	}
	if was > 0 != (c.blind > 0) {
		c.PlanAll()
	}
}

func (c *Collector) driverWent(name string, _ struct{}) {
	if c.index.drivers.add(name, -1) {
		c.PlanAll()
	}
}

func (c *Collector) classWent(_, provisioner string) {
	if c.index.classes.add(provisioner, -1) {
		c.PlanAll()
	}
}

// Synced says that the objects of a type are known up to now.
func (c *Collector) Synced(now time.Time, t gc.Type) {
	c.Tell(now)
	c.known[t.Kind] = true
	switch t.Kind {
	case "PersistentVolumeClaim":
		c.claims.synced(c.claimWent)
	case "Node":
		c.nodes.synced(func(string, struct{}) {})
	case "CSIDriver":
		c.drivers.synced(c.driverWent)
	case "StorageClass":
		c.classes.synced(c.classWent)
	default:
		c.Collection.Synced(now, t)
	}
	c.PlanAll()
}

// Unreadable says that a type cannot be listed or watched now: what is known of it is old,
// and nothing that rests on it is asked for.
func (c *Collector) Unreadable(now time.Time, t gc.Type) {
	c.Tell(now)
	c.known[t.Kind] = false
	switch t.Kind {
	case "PersistentVolumeClaim", "CSIDriver", "StorageClass":
	case "Node":
		c.nodes.known = false
	default:
		c.Collection.Unreadable(now, t)
	}
	c.PlanAll()
}

// Restored forgets everything: etcd was restored.
func (c *Collector) Restored(now time.Time) {
	clear(c.known)
	c.claims.restored()
	c.nodes.restored()
	c.drivers.restored()
	c.classes.restored()
	c.Collection.Restored(now)
	c.index, c.blind = newIndex(), 0
	clear(c.byNode)
}
