package cascade

import "time"

// Away says that the API server was away, and may have come back with an etcd that has
// another history since some moment. What was proven to be gone, of any type, is asked
// about again: an owner that is there once more may have dependents that a watch reports
// of before the owner's own type has been listed.
func (c *Collector) Away(now time.Time) {
	c.now = now
	for id := range c.kinds.all {
		c.doubt(uint32(id))
	}
}
