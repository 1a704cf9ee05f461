package jobs

import (
	"maps"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// space is what is kept of a Namespace.
type space struct {
	gc.Entry
	labels map[string]string
}

func isNamespace(t gc.Type) bool { return t.APIVersion == "v1" && t.Kind == "Namespace" }

// observeNamespace judges Jobs anew if labels changed, on which a default TTL may hang.
func (c *Collector) observeNamespace(now time.Time, t gc.Type, o gc.Object, fields any) {
	c.Tell(now)
	s, changed := c.spaces.Observe(t, o, func() *space { return new(space) })
	if !changed {
		return
	}
	f, _ := fields.(Namespace)
	known := c.byName[s.Name] == s
	if known && maps.Equal(s.labels, f.Labels) {
		return
	}
	s.labels, c.byName[s.Name] = f.Labels, s
	c.replan(s)
}

func (c *Collector) namespaceGone(s *space) {
	if c.byName[s.Name] == s {
		delete(c.byName, s.Name)
		c.replan(s)
	}
}

// replan the Jobs of a Namespace. While Namespaces are listed they are many, and Synced
// follows.
func (c *Collector) replan(s *space) {
	if !c.spaces.Current(s) {
		return
	}
	for e := range c.Objects().All {
		if e.Namespace == s.Name {
			c.Plan(e)
		}
	}
}

// Listing says that a list of a type begins.
func (c *Collector) Listing(now time.Time, t gc.Type) {
	if isNamespace(t) {
		c.spaces.Listing(t)
		return
	}
	c.Collection.Listing(now, t)
}

// Forget takes a DELETED event.
func (c *Collector) Forget(now time.Time, t gc.Type, o gc.Object) {
	if !isNamespace(t) {
		c.Collection.Forget(now, t, o)
		return
	}
	c.Tell(now)
	if s, known := c.spaces.Forget(o.UID); known {
		c.namespaceGone(s)
	}
}

// Synced says that the objects of a type are known up to now.
func (c *Collector) Synced(now time.Time, t gc.Type) {
	if !isNamespace(t) {
		c.Collection.Synced(now, t)
		return
	}
	c.Tell(now)
	if c.spaces.Synced(t, c.namespaceGone) {
		c.PlanAll()
	}
}

// Unreadable says that a type cannot be listed or watched now.
func (c *Collector) Unreadable(now time.Time, t gc.Type) {
	if !isNamespace(t) {
		c.Collection.Unreadable(now, t)
		return
	}
	c.Tell(now)
	if c.spaces.Unreadable(t) {
		c.PlanAll()
	}
}

// Restored forgets everything: etcd was restored.
func (c *Collector) Restored(now time.Time) {
	c.Tell(now)
	c.spaces.Restored(c.namespaceGone)
	c.Collection.Restored(now)
}
