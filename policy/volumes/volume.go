package volumes

import (
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// volume is what is kept of a PersistentVolume.
type volume struct {
	phase, policy, driver, provisioner string // interned, as the next ones are
	size, holders                      string // holders: its other finalizers, with ", " between them
	handle, other                      string
	claim, claimUID                    string // namespace/name
	secret                             struct{ Namespace, Name string }
	since                              gc.Stamp
	unread                             bool  // its fields are not known
	own                                bool  // its driver made it, and no other driver has replaced that one
	finalizer                          int   // position of the provisioner's, from 1; 0: none
	failures                           uint8 // in a row
	retry                              time.Time
}

func (c *Collector) learnVolume(e *kept, o gc.Object, fields any) {
	was := false
	if e.volume != nil {
		was = e.volume.unread
		c.file(e, take)
	}
	f, known := fields.(Volume)
	v := &volume{
		phase: c.words.Of(f.Phase), size: c.words.Of(f.Size), policy: c.words.Of(f.Policy), driver: c.words.Of(f.Driver), provisioner: c.words.Of(f.ProvisionedBy),
		handle: f.Handle, other: f.Other, claimUID: f.Claim.UID, secret: f.Secret, since: gc.StampOf(f.Since), unread: !known,
	}
	v.own = f.Driver != "" && f.ProvisionedBy == f.Driver && (f.MigratedTo == "" || f.MigratedTo == f.Driver)
	if f.MigratedTo != "" { // this driver deletes what the other one made
		v.provisioner = c.words.Of(f.MigratedTo)
	}
	if f.Claim.Name != "" {
		v.claim = f.Claim.Namespace + "/" + f.Claim.Name
	}
	var holders []string
	for i, name := range o.Finalizers {
		switch name {
		case Finalizer:
			v.finalizer = i + 1
		case "kubernetes.io/pv-protection": // its own controller removes it
		default:
			holders = append(holders, name)
		}
	}
	v.holders = c.words.Of(strings.Join(holders, ", "))
	e.volume = v
	c.file(e, put)
	c.unseen(was, !known)
}

// detail returns what a person wants to know of a volume that stays: its size, and what holds it.
func (v *volume) detail() string {
	var known []string
	if v.size != "" {
		known = append(known, v.size)
	}
	if v.holders != "" {
		known = append(known, "held by "+v.holders)
	}
	return strings.Join(known, ", ")
}

// decideVolume returns why and when a volume is to be deleted. If the time is zero, the
// reason is why it is kept.
func (c *Collector) decideVolume(e *kept) (gc.Reason, time.Time) {
	v, never := e.volume, time.Time{}
	for _, why := range []func(*kept) gc.Reason{c.itself, c.claimed, c.referred, c.made} {
		if r := why(e); r != "" {
			return r, never
		}
	}
	due := v.since.Time().Add(c.config.releasedFor())
	if v.retry.After(due) {
		due = v.retry
	}
	if r := c.resting[v.driver]; r != nil && r.until.After(due) {
		due = r.until
	}
	return Released, due
}

// itself returns why a volume is kept by its own state; "" if it is not.
func (c *Collector) itself(e *kept) gc.Reason {
	switch v := e.volume; {
	case v.unread || !c.Objects().Whole("PersistentVolume"):
		return Unread
	case e.terminating && v.finalizer == 0:
		return Terminating // with the provisioner's finalizer, the data still exists
	case v.policy != "Delete":
		return Retained
	case v.phase == "Failed":
		return ReclaimFailed
	case v.phase != "Released":
		return NotReleased
	}
	return ""
}

// claimed returns why a claim keeps a volume; "" if none does.
func (c *Collector) claimed(e *kept) gc.Reason {
	v := e.volume
	if !c.claims.Known() || c.blind > 0 {
		return OtherUnread
	}
	if v.claim == "" || v.claimUID == "" {
		return ClaimUnknown
	}
	if uid, there := c.claims.UID(v.claim); there && uid != v.claimUID {
		return OtherClaim
	} else if there {
		return ClaimThere
	}
	if c.index.wanted[e.Name] > 0 {
		return ClaimWants
	}
	return ""
}

// referred returns why other references to the data keep a volume; "" if none do.
func (c *Collector) referred(e *kept) gc.Reason {
	v := e.volume
	switch {
	case len(c.index.byHandle[v.handle]) > 1:
		return Shared
	case !c.Objects().Whole("VolumeAttachment"):
		return OtherUnread
	case c.index.attached[e.Name] > 0 || v.handle != "" && c.index.inline[v.handle] > 0:
		return Attached
	case v.holders != "":
		return HeldByFinalizers
	}
	return ""
}

// made returns why the provisioner of a volume keeps it; "" if it does not.
func (c *Collector) made(e *kept) gc.Reason {
	v := e.volume
	switch {
	case v.provisioner == "" || v.driver != "" && v.handle == "":
		return NotProvisioned
	case v.own && slices.Contains(c.config.Serve, v.driver):
	case !c.drivers.Known() || !c.Objects().Whole("CSINode") || !c.classes.Known():
		return OtherUnread
	case v.driver == v.provisioner && c.index.drivers[v.driver] == 0:
		return DriverGone
	case c.index.drivers[v.provisioner] == 0 && c.index.classes[v.provisioner] == 0:
		return ProvisionerGone
	default:
		return LeftToProvisioner
	}
	switch {
	case (v.secret.Name == "") != (v.secret.Namespace == ""):
		return SecretUnclear
	case v.since == gc.NoStamp:
		return SinceUnknown
	}
	return ""
}

// tried records the result of a volume deletion. A driver that cannot serve is left alone for
// a while.
func (c *Collector) tried(of call, r gc.Result) {
	if r == gc.TooMany {
		d := c.resting[of.driver]
		if d == nil {
			d = new(rest)
			c.resting[of.driver] = d
		}
		if !d.until.After(c.Now()) { // results of earlier requests do not extend the pause
			d.pause = min(max(2*d.pause, minPause), maxPause)
			d.until = c.Now().Add(d.pause)
			c.planDriver(of.driver)
		}
		return
	}
	if r == gc.Done && c.resting[of.driver] != nil {
		delete(c.resting, of.driver)
		c.planDriver(of.driver)
	}
	e := c.Objects().Get(of.uid)
	if e == nil || e.volume == nil || e.ResourceVersion != of.version || !slices.Contains([]gc.Result{gc.Failed, gc.Conflict, gc.Forbidden}, r) {
		return
	}
	v := e.volume
	v.retry = c.Now().Add(min(minRetry<<min(v.failures, 10), maxRetry))
	v.failures = min(v.failures+1, 10)
	c.Plan(e)
}

func (c *Collector) planDriver(driver string) {
	for e := range c.Objects().All {
		if e.volume != nil && e.volume.driver == driver {
			c.Plan(e)
		}
	}
}
