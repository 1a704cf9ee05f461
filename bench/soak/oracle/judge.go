package oracle

import (
	"fmt"
	"slices"
	"time"
)

// Kinds of violations.
const (
	LivingOwner     = "deleted although an owner lives"
	UnknownOwner    = "deleted although nobody can know of an owner"
	NoOwner         = "deleted without an owner"
	NeverCollected  = "deleted although its owner cannot be looked up"
	OrphanDeleted   = "deleted although it was orphaned"
	ForegroundOrder = "the owner went before a dependent that blocks it"
	ReferenceTaken  = "a reference to a living owner was taken away"
	FinalizerTaken  = "a finalizer of others was taken away"
	Forced          = "deleted by force although its Node may be there"
	DataErased      = "its data was deleted"
)

// Violation is something that must not happen.
type Violation struct {
	Kind   string
	Object string // with its UID
	UID    string
	Epoch  int
	Rev    int64
	At     time.Time
	Why    string
	others []string // UIDs of other objects involved
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s, at revision %d of epoch %d: %s", v.Kind, v.Object, v.Rev, v.Epoch, v.Why)
}

// Deletion reports whether the violation is a wrong deletion, or a wrong end of something else.
func (v Violation) Deletion() bool { return v.Kind != ReferenceTaken && v.Kind != FinalizerTaken }

func (o *Oracle) violated(kind string, rev int64, at time.Time, x *Object, why string, others ...string) {
	for _, r := range x.Owners {
		others = append(others, r.UID)
	}
	o.violations = append(o.violations, Violation{Kind: kind, Object: x.String(), UID: x.UID, Epoch: o.epoch, Rev: rev, At: at, Why: why, others: others})
}

// Violations returns the violations so far.
func (o *Oracle) Violations() []Violation {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.violations)
}

// judgeChange judges an update.
func (o *Oracle) judgeChange(rev int64, at time.Time, old, x *Object) {
	if x.Terminating && !old.Terminating {
		o.judgeDeletion(rev, at, old)
	}
	if old.waiting() && !x.waiting() {
		o.judgeOrder(rev, at, old)
	}
	if old.Grace > 0 && x.Grace == 0 {
		o.forced(rev, at, old)
	}
	if old.has(ProvisionerFinalizer) && !x.has(ProvisionerFinalizer) && !o.mayGo(old, at) {
		o.violated(FinalizerTaken, rev, at, old, ProvisionerFinalizer)
	}
	mine := old.Mark != x.Mark
	taken := false
	for _, r := range old.Owners {
		if mine || slices.ContainsFunc(x.Owners, func(n Owner) bool { return n.UID == r.UID }) {
			continue
		}
		taken = true
		s := o.standing(old, r)
		if s == solid && o.raced(r.UID, at) {
			o.counts.Raced++
		} else if s == solid || s == unknown {
			o.violated(ReferenceTaken, rev, at, old, fmt.Sprintf("%s %s (%s)", r.Kind, r.Name, r.UID))
		}
	}
	for _, f := range old.held() {
		if !x.has(f) && !o.intent(x.UID).lifted {
			o.violated(FinalizerTaken, rev, at, old, f)
		}
	}
	if taken || old.Terminating && len(x.Finalizers) < len(old.Finalizers) && !o.intent(x.UID).lifted {
		o.counts.Changes++
	}
}

// judgeEnd judges a removal.
func (o *Oracle) judgeEnd(rev int64, at time.Time, x *Object) {
	if !x.Terminating {
		o.judgeDeletion(rev, at, x)
		return
	}
	if x.Grace > 0 {
		o.forced(rev, at, x)
	}
	if x.waiting() {
		o.judgeOrder(rev, at, x)
	}
	if held := x.held(); len(held) > 0 && !o.intent(x.UID).lifted {
		o.violated(FinalizerTaken, rev, at, x, fmt.Sprint(held))
	}
	if x.waiting() || x.orphaning() {
		o.counts.Changes++
	}
}

// judgeDeletion judges the decision to delete an object.
func (o *Oracle) judgeDeletion(rev int64, at time.Time, x *Object) {
	if in := o.intents[x.UID]; in != nil && in.deletes > 0 || o.emptied(x) {
		return
	}
	if o.mayGo(x, at) {
		o.collected(x)
		return
	}
	o.counts.Deletions++
	due, left := 0, 0
	for _, r := range x.Owners {
		why := fmt.Sprintf("%s %s (%s)", r.Kind, r.Name, r.UID)
		switch o.standing(x, r) {
		case solid, orphans:
			if o.raced(r.UID, at) {
				o.counts.Raced++
				return
			}
			o.violated(LivingOwner, rev, at, x, why)
			return
		case unknown:
			o.violated(UnknownOwner, rev, at, x, why)
			return
		case unresolvable:
			o.violated(NeverCollected, rev, at, x, why)
			return
		case orphaned:
			left++
		default:
			due++
		}
	}
	switch {
	case len(x.Owners) == 0:
		o.violated(NoOwner, rev, at, x, fmt.Sprintf("no collector may delete it: %v", o.reasons(x, at)))
	case due == 0 && left > 0:
		o.violated(OrphanDeleted, rev, at, x, "its owners were deleted with orphan")
	}
}

// served reports whether a reference names a version that is served. A reference that names another
// version is to something else, and blocks nothing.
func (o *Oracle) served(r Owner) bool {
	_, ok := o.config.Kinds[Kind{r.APIVersion, r.Kind}]
	return ok
}

// judgeOrder judges the end of a foreground deletion.
func (o *Oracle) judgeOrder(rev int64, at time.Time, x *Object) {
	if in := o.intents[x.UID]; in != nil && in.again || o.emptied(x) {
		return
	}
	for _, d := range o.dependents[x.UID] {
		if d == x || !slices.ContainsFunc(d.Owners, func(r Owner) bool { return r.blocks(d, x) && o.served(r) }) {
			continue
		}
		if o.config.Unseen != nil && o.config.Unseen(d, d.since[x.UID], at) {
			o.counts.Unseen++
			continue
		}
		o.violated(ForegroundOrder, rev, at, x, "it is blocked by "+d.String(), d.UID)
		return
	}
}
