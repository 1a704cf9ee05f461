package cascade

import (
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Explanation is why an object still exists, and how each of its owner references is
// judged.
type Explanation struct {
	Object  gc.Coordinates
	Reason  gc.Reason
	Due     bool             // an evaluation is pending: see Ready
	Owners  []Explained      // in the order of its ownerReferences
	Waiting []gc.Coordinates // dependents that hold it, the first ten
	Retry   time.Time        // not evaluated before; zero: no such time
	Root    gc.Coordinates   // of its deletion, if its owners are absent or waiting
	Last    gc.Result        // of the last action, with KeptRetry
}

// Explained is one owner reference and how it is judged.
type Explained struct {
	gc.Coordinates
	Judgement string // solid, orphaning, waiting, dangling, unknown, unresolvable
}

// Explain returns what is known of an object. It changes nothing.
func (c *Collector) Explain(o gc.Coordinates) Explanation {
	kind, known := c.kinds.ids[kindName{o.APIVersion, o.Kind}]
	i := c.find(key{o.UID, o.Name, o.Namespace, kind})
	if !known || i == 0 {
		return Explanation{Object: o, Reason: KeptNotKnown}
	}
	n := c.at(i)
	x := Explanation{Object: c.coordinates(i), Due: n.flags&queued != 0}
	for _, e := range n.owners {
		judgement := c.judge(i, e).String()
		if c.orphaned(i, e) {
			judgement = orphaning.String()
		}
		x.Owners = append(x.Owners, Explained{c.coordinates(e.owner), judgement})
	}
	x.Reason = c.why(i)
	switch x.Reason {
	case KeptDependents:
		x.Waiting = c.holding(i)
	case OwnersAbsent, OwnersWaiting:
		c.explainDeletion(i, &x)
	}
	if w := c.work[i]; w != nil {
		x.Last = w.last
		if x.Retry.IsZero() && w.due.After(c.now) {
			x.Retry = w.due
		}
	}
	return x
}

func (c *Collector) why(i index) gc.Reason {
	n, w := c.at(i), c.work[i]
	switch {
	case n.flags&observed == 0:
		return KeptNotKnown
	case c.excluded(i) && !c.ownFinalizer(i):
		return KeptExcluded
	case !c.reachable(i):
		return KeptUnserved
	case w != nil && (w.id != 0 || w.sent):
		return KeptInFlight
	case w != nil && w.conflicts >= restless:
		return ChangesTooOften
	case w != nil && w.disputed && w.due.After(c.now):
		return KeptDisputed
	case w != nil && w.due.After(c.now):
		return KeptRetry
	case n.flags&waitsForSync != 0:
		return KeptSync
	case n.flags&terminating != 0:
		return c.whyTerminating(i)
	}
	if len(n.owners) == 0 {
		return KeptNoOwners
	}
	counts, _ := c.classify(i)
	switch {
	case slices.ContainsFunc(n.owners, func(e edge) bool { return c.orphaned(i, e) }):
		return OwnerOrphans
	case counts[unresolvable] > 0:
		return KeptUnresolvable
	case counts[solid]+counts[orphaning] > 0:
		return KeptSolidOwner
	case counts[unknown] > 0:
		return c.whyUnknown(i)
	case counts[waiting] > 0:
		return OwnersWaiting
	}
	return OwnersAbsent
}

// explainDeletion adds the root of the deletion of an object, and whether the deletion is
// postponed.
func (c *Collector) explainDeletion(i index, x *Explanation) {
	cause := c.causeOf(i)
	if noted, top := c.climb(cause); noted != nil {
		x.Root = *noted
	} else {
		x.Root = c.coordinates(top)
	}
	if c.at(i).flags&parked == 0 {
		return
	}
	if c.throttles.hold {
		x.Reason = KeptHeld
	} else if l := c.throttles.byRoot[x.Root.UID]; l != nil {
		x.Reason, x.Retry = KeptSlowed, l.until
	}
}

func (c *Collector) whyTerminating(i index) gc.Reason {
	switch c.condition(i) {
	case orphaning:
		if c.entry(i) == nil {
			return KeptJournal
		}
		return KeptDependents
	case waiting:
		if _, blocking := c.dependentsOf(i); blocking > 0 {
			return KeptDependents
		}
		return DependentsGone
	}
	return KeptTerminating
}

// Holding returns the first ten dependents that a deleted owner waits for.
func (c *Collector) Holding(o gc.Coordinates) []gc.Coordinates {
	kind, known := c.kinds.ids[kindName{o.APIVersion, o.Kind}]
	if i := c.find(key{o.UID, o.Name, o.Namespace, kind}); known && i != 0 {
		return c.holding(i)
	}
	return nil
}

// holding returns the first ten dependents that an object waits for.
func (c *Collector) holding(i index) (list []gc.Coordinates) {
	const most = 10
	orphans := c.condition(i) == orphaning
	for s := c.firstOf(i); s != 0; s = c.at(s).same {
		if !orphans && s != i && !c.sameObject(s, i) {
			continue
		}
		for _, d := range c.at(s).dependents {
			if d.dependent != i && (orphans || c.at(d.dependent).owners[d.at].block) {
				if list = append(list, c.coordinates(d.dependent)); len(list) == most {
					return list
				}
			}
		}
	}
	return list
}
