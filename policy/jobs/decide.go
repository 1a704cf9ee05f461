package jobs

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// decide says when a Job is to go, and why; at the zero time, why it is kept.
func (c *Collector) decide(e *kept) (gc.Reason, time.Time) {
	switch {
	case e.terminating:
		return Terminating, time.Time{}
	case !e.ended:
		return Running, time.Time{}
	case len(c.config.Namespaces) > 0 && !c.config.Namespaces.Match(e.Namespace):
		return OtherNamespace, time.Time{}
	}
	why, after := c.after(e)
	switch {
	case why != TTL && why != DefaultTTL:
		return why, time.Time{}
	case e.finished == gc.NoStamp:
		return FinishTimeMissing, time.Time{}
	case !c.current:
		return Unread, time.Time{}
	}
	return why, e.finished.Time().Add(after)
}

// after is how long the Job is kept once it has finished, if why is a TTL.
func (c *Collector) after(e *kept) (why gc.Reason, d time.Duration) {
	switch {
	case e.hasTTL && e.ttl < 0:
		return InvalidTTL, 0
	case e.hasTTL:
		return TTL, time.Duration(e.ttl) * time.Second
	case e.owned: // the owner's business: a CronJob has its own limits
		return NoTTL, 0
	}
	for _, d := range c.config.Defaults {
		if d.After > 0 && d.Namespaces.Match(e.Namespace) {
			return DefaultTTL, d.After
		}
	}
	return NoTTL, 0
}

func (c *Collector) plan(e *kept) {
	_, due := c.decide(e)
	c.queue.Schedule(e, due)
}

func (c *Collector) planAll() {
	for e := range c.jobs.All {
		c.plan(e)
	}
}
