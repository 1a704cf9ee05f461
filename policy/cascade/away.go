package cascade

import "time"

// Away handles an outage of the API server. Its etcd may have been restored, with another
// history since some time. So owners of any type that were proven gone are read again: an
// owner that exists again may have dependents that a watch reports before the owner's own
// type is listed.
func (c *Collector) Away(now time.Time) {
	c.now = now
	for id := range c.kinds.all {
		c.doubt(uint32(id))
	}
}
