package cascade

import (
	"maps"
	"slices"
	"time"
)

// Release queues everything that was withheld or slowed: the caller wants it now.
func (c *Collector) Release(now time.Time) {
	c.now = now
	c.endThrottles()
	clear(c.heldReported)
	for _, i := range slices.Sorted(maps.Keys(c.work)) { // in an order that the inputs determine
		w := c.work[i]
		w.released = w.id != 0
		if w.withheld != 0 {
			w.withheld = 0
			c.wake(i)
		}
	}
}

// ExcludeNamespaces replaces the namespaces whose objects are never acted on. As owners,
// these objects count like any other, and their references hold owners that wait. An empty
// name excludes nothing: cluster-scoped objects are in no namespace.
func (c *Collector) ExcludeNamespaces(now time.Time, list []string) {
	c.now = now
	c.excludeNamespaces(list)
	for id := range c.kinds.all {
		c.wakeKind(uint32(id))
	}
}

func (c *Collector) excludeNamespaces(list []string) {
	c.excludedNS = make(map[string]bool, len(list))
	for _, name := range list {
		if name != "" {
			c.excludedNS[name] = true
		}
	}
}

// Objects returns how many nodes of a type there are: its objects, and owners of it that
// were never seen.
func (c *Collector) Objects(apiVersion, kind string) int {
	id, ok := c.kinds.ids[kindName{apiVersion, kind}]
	if !ok {
		return 0
	}
	return c.kinds.all[id].size
}

// Pending returns how many nodes wait for evaluation, plus the actions that Ready has not
// returned yet.
func (c *Collector) Pending() int { return len(c.queue) - c.head + len(c.out) }
