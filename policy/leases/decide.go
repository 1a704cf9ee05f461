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
		return c.election(e)
	case e.owned:
		return Owned, time.Time{}
	case !e.holds:
		return OtherHolder, time.Time{}
	case c.hasNode(e):
		return NodeThere, time.Time{}
	case e.missing == gc.NoStamp:
		return NodesUnread, time.Time{}
	case !c.Objects().Current(e):
		return Unread, time.Time{}
	}
	return NodeGone, max(e.missing, e.expires).Time().Add(c.config.quarantine())
}

// election says what is to become of a Lease that no Node holds.
func (c *Collector) election(e *kept) (gc.Reason, time.Time) {
	for _, of := range c.config.Elections {
		if len(of.Namespaces) > 0 && !of.Namespaces.Match(e.Namespace) || !of.Names.Match(e.Name) {
			continue
		}
		switch {
		case of.After <= 0 || e.expires == gc.NoStamp:
		case of.Delete && e.known && !c.Objects().Current(e):
			return Unread, time.Time{}
		case of.Delete && e.known:
			return ElectionAbandoned, max(e.expires, e.lives).Time().Add(of.After)
		case c.Now().After(e.expires.Time().Add(of.After)):
			return ElectionExpired, time.Time{}
		}
		return InElection, time.Time{}
	}
	return NotSelected, time.Time{}
}

// miss notes since when the Node of a Lease is missing.
func (c *Collector) miss(e *kept) {
	switch missing := e.ofNode && c.nodes.Known() && !c.hasNode(e); {
	case !missing:
		e.missing = gc.NoStamp
	case e.missing == gc.NoStamp:
		e.missing = gc.StampOf(c.Now())
	}
}

// hasNode says whether the Node of a Lease is there, as far as is known.
func (c *Collector) hasNode(e *kept) bool {
	_, there := c.nodes.UID(e.Name)
	return there
}

func (c *Collector) planNamed(node string) {
	if e := c.byName[node]; e != nil {
		c.Plan(e)
	}
}
