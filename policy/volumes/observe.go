package volumes

import (
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Observe receives an object as a list or a watch reported it; fields: see types.go.
func (c *Collector) Observe(now time.Time, t gc.Type, o gc.Object, fields any) {
	c.SetTime(now)
	switch t.Kind {
	case "PersistentVolumeClaim":
		claim, read := fields.(Claim)
		before, _ := c.claims.Observe(t, o, claimed{claim.Volume, !read})
		c.index.wanted.Add(before.volume, -1)
		c.index.wanted.Add(claim.Volume, 1)
		c.planClaim(o.Key(), before.volume, claim.Volume)
		c.unseen(before.blind, !read)
	case "Node":
		c.nodes.Observe(t, o, false)
	case "Lease":
		c.leases.Observe(now, t, o, fields)
	case "CSIDriver":
		if _, was := c.drivers.Observe(t, o, struct{}{}); !was && c.index.drivers.Add(strings.Clone(o.Name), 1) {
			c.PlanAll()
		}
	case "StorageClass":
		class, _ := fields.(Class)
		before, _ := c.classes.Observe(t, o, string(class))
		went := c.index.classes.Add(before, -1)
		if came := c.index.classes.Add(string(class), 1); went || came {
			c.PlanAll()
		}
	default:
		c.See(now, t, o, func() *kept { return new(kept) }, func(e *kept) {
			if e.terminating, e.owned = o.Terminating, len(o.Owners) > 0; t.Kind == "PersistentVolume" {
				c.learnVolume(e, o, fields)
			} else {
				c.learnLeft(e, t.Kind == "CSINode", fields)
			}
		})
	}
}

func (c *Collector) claimWent(key string, before claimed) {
	c.index.wanted.Add(before.volume, -1)
	c.planClaim(key, before.volume, "")
	c.unseen(before.blind, false)
}

// unseen updates the number of objects whose fields could not be read. Such an object may
// affect any volume.
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
	if c.index.drivers.Add(name, -1) {
		c.PlanAll()
	}
}

func (c *Collector) classWent(_, provisioner string) {
	if c.index.classes.Add(provisioner, -1) {
		c.PlanAll()
	}
}

// Restored forgets everything: etcd was restored.
func (c *Collector) Restored(now time.Time) {
	c.Collection.Restored(now)
	c.index, c.blind = newIndex(), 0
	clear(c.bound)
}
