package jobs

import (
	"maps"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// observeNamespace judges the Jobs of a Namespace again if its labels changed, because a
// default TTL may depend on them.
func (c *Collector) observeNamespace(now time.Time, t gc.Type, o gc.Object, fields any) {
	c.SetTime(now)
	f, _ := fields.(Namespace)
	if before, known := c.spaces.Observe(t, o, f.Labels); !known || !maps.Equal(before, f.Labels) {
		c.replan(o.Name)
	}
}

// replan judges the Jobs of a Namespace again. It does nothing while Namespaces are not
// known: there are many, and Synced then judges all Jobs.
func (c *Collector) replan(name string) {
	if !c.spaces.Known() {
		return
	}
	for e := range c.Objects().All {
		if e.Namespace == name {
			c.Plan(e)
		}
	}
}
