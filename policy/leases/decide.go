package leases

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// decide says when a Lease is to go, and why; at the zero time, why it is kept.
func (c *Collector) decide(e *kept) (gc.Reason, time.Time) {
	switch {
	case e.terminating:
		return Terminating, time.Time{}
	case e.own:
		return EbbsOwn, time.Time{}
	case e.identity:
		return APIServer, time.Time{}
	case !e.ofNode:
		return c.election(e), time.Time{}
	case e.owned:
		return Owned, time.Time{}
	case !e.holds:
		return OtherHolder, time.Time{}
	case c.nodes.has(e.Name):
		return NodeThere, time.Time{}
	case e.missing == gc.NoStamp:
		return NodesUnread, time.Time{}
	case !c.current:
		return Unread, time.Time{}
	}
	return NodeGone, max(e.missing, e.expires).Time().Add(c.config.quarantine())
}

// election says what there is to report of a Lease that no Node holds.
func (c *Collector) election(e *kept) gc.Reason {
	for _, of := range c.config.Elections {
		if len(of.Namespaces) > 0 && !of.Namespaces.Match(e.Namespace) || !of.Names.Match(e.Name) {
			continue
		}
		if of.After > 0 && e.expires != gc.NoStamp && c.now.After(e.expires.Time().Add(of.After)) {
			return ElectionExpired
		}
		return InElection
	}
	return NotSelected
}

// plan notes since when the Node of a Lease is missing, and when the Lease is to go.
func (c *Collector) plan(e *kept) {
	switch missing := e.ofNode && c.nodes.known && !c.nodes.has(e.Name); {
	case !missing:
		e.missing = gc.NoStamp
	case e.missing == gc.NoStamp:
		e.missing = gc.StampOf(c.now)
	}
	_, due := c.decide(e)
	c.queue.Schedule(e, due)
}

func (c *Collector) planAll() {
	for e := range c.leases.All {
		c.plan(e)
	}
}

func (c *Collector) planNamed(node string) {
	if e := c.byName[node]; e != nil {
		c.plan(e)
	}
}
