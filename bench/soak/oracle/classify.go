package oracle

import "time"

// standing is the state of an owner that matters to a reference.
type standing int

const (
	absent       standing = iota
	solid                 // exists
	waits                 // being deleted in the foreground
	orphans               // being deleted; its dependents stay
	orphaned              // gone; its dependents stay
	unclear               // gone, in a way that cannot be known
	unknown               // no API server can answer for it
	unresolvable          // has a namespace, and the dependent has none
)

// standing returns the state of the owner that d refers to with r.
func (o *Oracle) standing(d *Object, r Owner) standing {
	group := groupOf(r.APIVersion)
	namespaced, known := o.scopes[[2]string{group, r.Kind}]
	_, served := o.config.Kinds[Kind{r.APIVersion, r.Kind}]
	if known && namespaced && d.Namespace == "" {
		return unresolvable
	}
	at := place{group: group, kind: r.Kind, name: r.Name}
	if namespaced {
		at.namespace = d.Namespace
	}
	if x := o.places[at]; x != nil && x.UID == r.UID {
		switch {
		case x.waiting():
			return waits
		case x.orphaning():
			return orphans
		}
		return solid
	}
	g, died := o.tombstones[r.UID]
	x := o.uids[r.UID]
	switch {
	case x != nil && x.orphaning():
		return orphans // by its UID, wherever the reference looks for it
	case died && g.orphaned:
		return orphaned
	case died && g.unclear, died && !served:
		return unclear
	case !served:
		return unknown
	}
	return absent
}

// raced reports whether an owner had another state a moment ago.
func (o *Oracle) raced(uid string, at time.Time) bool {
	t, ok := o.waited[uid]
	return ok && at.Sub(t) < o.config.Race
}
