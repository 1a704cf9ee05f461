package jobs

import (
	"maps"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// space is what is known of a Namespace.
type space struct {
	gc.Entry
	labels map[string]string
}

// observeNamespace judges the Jobs of a Namespace again if its labels changed, because a
// default TTL may depend on them.
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

// replan judges the Jobs of a Namespace again. It does nothing while Namespaces are not
// known: there are many, and Synced then judges all Jobs.
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
