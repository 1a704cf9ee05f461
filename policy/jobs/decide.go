package jobs

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// decide returns why and when a Job is to be deleted. If the time is zero, the reason is why
// it is kept.
func (c *Collector) decide(e *kept) (gc.Reason, time.Time) {
	switch {
	case e.terminating:
		return Terminating, time.Time{}
	case !e.ended:
		return Running, time.Time{}
	case !c.selects(e):
		return OtherNamespace, time.Time{}
	}
	why, after := c.after(e)
	switch {
	case why != TTL && why != DefaultTTL:
		return why, time.Time{}
	case e.finished == gc.NoStamp:
		return FinishTimeMissing, time.Time{}
	case !c.Objects().Current(e):
		return Unread, time.Time{}
	}
	if e.finished.Time().After(c.Now()) {
		why = FinishedInFuture
	}
	return why, e.finished.Time().Add(after)
}

// selects reports whether Jobs in the namespace of e are collected.
func (c *Collector) selects(e *kept) bool {
	return len(c.config.Namespaces) == 0 || c.config.Namespaces.Match(e.Namespace)
}

// Claims reports whether a Job was due before it was deleted. Then the collector may have deleted it,
// before this process began. It may also have if the labels of the Job's namespace are not known.
func (c *Collector) Claims(uid string) bool {
	e := c.Objects().Get(uid)
	if e == nil || !e.terminating || !e.ended || !c.selects(e) || e.finished == gc.NoStamp {
		return false
	}
	why, after := c.after(e)
	return why == NamespaceUnread || (why == TTL || why == DefaultTTL) && !e.finished.Time().Add(after).After(c.Now())
}

// after returns how long the Job is kept once it has finished, if why is TTL or DefaultTTL.
// Otherwise why is the reason to keep it, and d is 0.
func (c *Collector) after(e *kept) (why gc.Reason, d time.Duration) {
	switch {
	case e.hasTTL && e.ttl < 0:
		return InvalidTTL, 0
	case e.hasTTL:
		return TTL, time.Duration(e.ttl) * time.Second
	case e.owned: // its owner decides: a CronJob has its own limits
		return NoTTL, 0
	}
	for _, d := range c.config.Defaults {
		if d.After <= 0 || len(d.Namespaces) > 0 && !d.Namespaces.Match(e.Namespace) {
			continue
		}
		if d.Selects != nil {
			labels, there := c.spaces.Get(e.Namespace)
			if !there || !c.spaces.Known() {
				return NamespaceUnread, 0
			}
			if !d.Selects(labels) {
				continue
			}
		}
		return DefaultTTL, d.After
	}
	return NoTTL, 0
}
