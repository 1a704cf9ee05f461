package csrs

import (
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// kept is what is known of a request of either type. There may be many, so it is small.
type kept struct {
	gc.Entry
	signer      *signer  // nil for a PodCertificateRequest
	since       gc.Stamp // when it was approved; created, if it has no conditions
	refused     gc.Stamp // when it was denied, or failed if that was earlier
	expires     gc.Stamp
	handled     bool
	isApproved  bool
	issued      bool
	failed      bool // refused is the time of the failure
	known       bool // it has a condition that a rule covers
	terminating bool
}

// signer is shared by all requests to one signer.
type signer struct {
	name     string
	patience Patience
	requests int
}

func (e *kept) set(r Request) {
	if e.since = gc.StampOf(r.Created); r.Handled {
		e.since = gc.StampOf(r.Approved.Since)
	}
	e.handled, e.isApproved, e.issued = r.Handled, r.Approved.Is, r.Issued
	e.known = r.Approved.Is || r.Denied.Is || r.Failed.Is
	e.refused, e.failed = gc.StampOf(r.Denied.Since), false
	if failed := gc.StampOf(r.Failed.Since); failed != gc.NoStamp && (e.refused == gc.NoStamp || failed < e.refused) {
		e.refused, e.failed = failed, true
	}
	e.expires = gc.StampOf(r.NotAfter)
}

// decide returns why and when a request is to be deleted. If the time is zero, the reason is
// why it is kept.
func (c *Collector) decide(e *kept) (gc.Reason, time.Time) {
	if e.terminating {
		return Terminating, time.Time{}
	}
	why, due := c.earliest(e)
	switch {
	case due.IsZero():
		return why, due
	case !c.Objects().Current(e):
		return Unread, time.Time{}
	}
	return why, due.Add(1) // the rules need strictly more than the period
}

// earliest returns the earliest time of all rules. The rules are in the
// kube-controller-manager's order: of rules with the same time, the first counts.
func (c *Collector) earliest(e *kept) (why gc.Reason, due time.Time) {
	rule := func(applies bool, since gc.Stamp, after time.Duration, as gc.Reason) {
		if !applies || since == gc.NoStamp {
			return
		}
		if at := since.Time().Add(after); due.IsZero() || at.Before(due) {
			why, due = as, at
		}
	}
	if e.signer == nil {
		rule(true, e.since, c.podRequests(), PodRequestOld)
	} else {
		p, issued, refused := &e.signer.patience, Issued, Denied
		if e.expires == gc.NoStamp {
			issued = IssuedUnreadable
		}
		if e.failed {
			refused = Failed
		}
		rule(e.handled && e.issued, e.since, p.Issued, issued)
		rule(true, e.refused, p.Refused, refused)
		rule(!e.handled, e.since, p.Pending, Pending)
		rule(e.issued && e.isApproved, e.expires, 0, Expired)
		rule(e.handled && !e.issued, e.since, p.Unissued, Unissued)
	}
	if due.IsZero() {
		if why = TimeMissing; e.handled && !e.known {
			why = Undecided
		}
	}
	return why, due
}

func (c *Collector) podRequests() time.Duration {
	if c.config.PodRequests > 0 {
		return c.config.PodRequests
	}
	return peersPodRequests
}

// sign records that e is a request to a signer.
func (c *Collector) sign(e *kept, name string) {
	if e.signer != nil && e.signer.name == name {
		return
	}
	c.unsign(e)
	s := c.signers[name]
	if s == nil {
		name = strings.Clone(name)
		s = &signer{name: name, patience: c.config.with(name)}
		c.signers[name] = s
	}
	s.requests++
	e.signer = s
}

// unsign undoes sign and forgets a signer without requests, because clients may invent any
// number of signer names.
func (c *Collector) unsign(e *kept) {
	if s := e.signer; s != nil {
		if s.requests--; s.requests == 0 {
			delete(c.signers, s.name)
		}
		e.signer = nil
	}
}
