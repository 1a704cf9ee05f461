package volumes

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Listing says that a list of a type begins. An object may be there that it has yet to
// tell of.
func (c *Collector) Listing(now time.Time, t gc.Type) {
	c.known[t.Kind] = false
	c.Collection.Listing(now, t)
	c.PlanAll()
}

// Observe takes an object as a list or a watch reported it; fields: see types.go.
func (c *Collector) Observe(now time.Time, t gc.Type, o gc.Object, fields any) {
	c.Tell(now)
	switch t.Kind {
	case "PersistentVolumeClaim":
		claim, read := fields.(Claim)
		before, _ := c.claims.Observe(t, o, claimed{claim.Volume, !read})
		c.index.wanted.add(before.volume, -1)
		c.index.wanted.add(claim.Volume, 1)
		c.planClaim(o.Key(), before.volume, claim.Volume)
		c.unseen(before.blind, !read)
	case "Node":
		if _, was := c.nodes.Observe(t, o, struct{}{}); !was {
			c.losses.AddPresent(1)
			c.planNode(o.Name)
			if l := c.lost[o.Name]; l != nil {
				c.losses.Back(l)
			}
			c.losses.Weigh()
		}
	case "Lease":
		c.leases.Observe(now, t, o, fields)
	case "CSIDriver":
		if _, was := c.drivers.Observe(t, o, struct{}{}); !was && c.index.drivers.add(cloned(o.Name), 1) {
			c.PlanAll()
		}
	case "StorageClass":
		class, _ := fields.(Class)
		before, _ := c.classes.Observe(t, o, string(class))
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

func (c *Collector) driverWent(name string) {
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
	c.known[t.Kind] = true
	c.Collection.Synced(now, t)
	c.PlanAll()
}

// Unreadable says that a type cannot be listed or watched now: what is known of it is old,
// and nothing that rests on it is asked for.
func (c *Collector) Unreadable(now time.Time, t gc.Type) {
	c.known[t.Kind] = false
	c.Collection.Unreadable(now, t)
	c.PlanAll()
}

// Restored forgets everything: etcd was restored.
func (c *Collector) Restored(now time.Time) {
	clear(c.known)
	c.Collection.Restored(now)
	c.index, c.blind = newIndex(), 0
	clear(c.byNode)
	clear(c.lost)
	c.losses.Reset()
}
