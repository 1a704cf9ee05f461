package leases

import (
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// decide returns why and when a Lease is to be deleted. If the time is zero, the reason is
// why it is kept.
func (c *Collector) decide(e *kept) (gc.Reason, time.Time) {
	switch {
	case e.terminating:
		return Terminating, time.Time{}
	case slices.Contains(c.config.Own, e.Namespace+"/"+e.Name):
		return EbbsOwn, time.Time{}
	case e.identity:
		return APIServer, time.Time{}
	case !e.ofNode:
		return c.election(e)
	case e.owned:
		return Owned, time.Time{}
	case !e.holds:
		return OtherHolder, time.Time{}
	case c.nodes.There(e.Name):
		return NodeThere, time.Time{}
	case e.Since == 0:
		return NodesUnread, time.Time{}
	case !c.Objects().Current(e):
		return Unread, time.Time{}
	}
	return NodeGone, max(e.Since, e.Last).Time().Add(nodes.Quarantine(c.config.Quarantine))
}

// election is decide for a Lease outside of nodes.LeaseNamespace.
func (c *Collector) election(e *kept) (gc.Reason, time.Time) {
	for _, of := range c.config.Elections {
		if len(of.Namespaces) > 0 && !of.Namespaces.Match(e.Namespace) || !of.Names.Match(e.Name) {
			continue
		}
		switch {
		case of.After <= 0 || e.Last == gc.NoStamp:
		case of.Delete && e.known && !c.Objects().Current(e):
			return Unread, time.Time{}
		case of.Delete && e.known:
			return ElectionAbandoned, max(e.Last, e.Since).Time().Add(of.After)
		case c.Now().After(e.Last.Time().Add(of.After)):
			return ElectionExpired, time.Time{}
		}
		return InElection, time.Time{}
	}
	return NotSelected, time.Time{}
}

// miss records since when the Node of a Lease is missing.
func (c *Collector) miss(e *kept) {
	if e.ofNode {
		e.Miss(c.Now(), c.nodes.Missing(e.Name))
	}
}
