package nodes

import (
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// quiet returns since when a Node that is not ready has given no sign of life, or a reason
// for which that does not matter.
func (c *Collector) quiet(e *kept) (gc.Reason, time.Time) {
	switch {
	case e.terminating:
		return Terminating, time.Time{}
	case !e.understood || !c.Objects().Known():
		return NotRead, time.Time{}
	case e.ready:
		return Ready, time.Time{}
	case e.since == gc.NoStamp:
		return TimeMissing, time.Time{}
	case !c.leases.Known():
		return LeasesUnread, time.Time{}
	}
	return "", c.leases.Last(e.Name, max(e.since, e.heard)).Time()
}

// holds returns why a Node is kept however long it has been stale; "" if nothing keeps it.
func (c *Collector) holds(e *kept) gc.Reason {
	switch {
	case !has(e.labels, c.config.Label) && !has(e.taints, c.config.Taint):
		return NotMarked
	case !c.config.Inventory:
		return NoInventory
	case !c.attachments.Known():
		return AttachmentsUnread
	case (e.volumes || c.attached[e.Name] > 0) && !e.outOfService:
		return VolumesAttached
	}
	return ""
}

// decide returns the reason for which a Node is kept or deleted, and when the next action is
// due: asking for the inventory, reading its Lease, and last its deletion. The zero time
// means no action.
func (c *Collector) decide(e *kept) (gc.Reason, time.Time) {
	never := time.Time{}
	why, since := c.quiet(e)
	if why != "" {
		return why, never
	}
	now, stale, held := c.Now(), since.Add(c.config.notReadyFor()), c.holds(e)
	due := slices.MaxFunc([]time.Time{stale, c.since.Add(WatchFor), e.seen.Time().Add(WatchFor)}, time.Time.Compare)
	switch {
	case now.Before(stale) && held != "":
		return NotYet, never
	case now.Before(stale):
		return NotYet, due
	case held != "":
		return held, never
	case now.Before(due):
		return Watched, due
	}
	return c.surveyed(e, due)
}

// surveyed returns the verdict of the last inventory on a Node that has been due since due.
func (c *Collector) surveyed(e *kept, due time.Time) (gc.Reason, time.Time) {
	s, now := &c.survey, c.Now()
	about := !s.asked.IsZero() && !s.asked.Before(due)
	switch {
	case s.id != 0:
		return AskingInventory, time.Time{} // the answer judges all Nodes again
	case s.refused != "" && now.Before(s.again):
		return s.refused, s.again
	case about && s.refused == "" && s.known.has(e) && now.Before(s.again):
		return InInventory, s.again
	case !c.clears(e, due):
		return AskingInventory, due
	}
	if free := c.free(e); free.After(now) {
		return TooMany, free
	}
	return NotInInventory, due
}

// clears reports whether the last inventory allows the deletion of a Node: it was asked for
// after the Node was due and at most FreshFor ago, it is believed, and it does not have the
// Node.
func (c *Collector) clears(e *kept, due time.Time) bool {
	s := &c.survey
	return s.id == 0 && s.refused == "" && s.known.exact != nil && !s.asked.Before(due) && c.Now().Sub(s.asked) <= FreshFor && !s.known.has(e)
}

// free returns when one more Node may be deleted; now, if at once.
func (c *Collector) free(e *kept) time.Time {
	now := c.Now()
	n, oldest := 0, now
	for uid, at := range c.spent {
		if now.Sub(at) >= window {
			delete(c.spent, uid)
			continue
		}
		if n++; at.Before(oldest) {
			oldest = at
		}
	}
	if _, again := c.spent[e.UID]; again || n < c.most() {
		return now
	}
	if c.fresh() && n < c.share() {
		return c.began.Add(window)
	}
	return oldest.Add(window)
}

// goes reports whether a Node with this reason is deleted at its time, if the inventory does not have
// it. For other reasons, the inventory is only asked for again at that time.
func goes(why gc.Reason) bool {
	return slices.Contains([]gc.Reason{NotYet, Watched, AskingInventory, TooMany, NotInInventory}, why)
}
