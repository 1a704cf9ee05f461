package gc

import "slices"

// Finalizers returns an object's finalizers after a DELETE with this policy, as the API
// server computes them (deletionFinalizersForGarbageCollection): any other collector
// finalizer is stripped. Without a policy ("") they stay. Types that orphan by default are
// not modelled.
func (p Policy) Finalizers(before []string) []string {
	if p == "" {
		return before
	}
	after := slices.DeleteFunc(slices.Clone(before), func(f string) bool { return f == OrphanFinalizer || f == ForegroundFinalizer })
	switch p {
	case Orphan:
		after = append(after, OrphanFinalizer)
	case Foreground:
		after = append(after, ForegroundFinalizer)
	}
	if len(after) == len(before) && !slices.ContainsFunc(after, func(f string) bool { return !slices.Contains(before, f) }) {
		return before // in their order
	}
	return after
}

// Gone reports whether the API server removes the object: it is deleted, and nothing holds
// it.
func (o Object) Gone() bool { return o.Terminating && len(o.Finalizers) == 0 }

// Apply returns an object after the request of an action; ok is false if a precondition or
// a test refuses the request. It is the model of the API server that tests and previews
// share. The caller sets the resourceVersion. Grace periods are treated as over.
func (a Action) Apply(o Object) (after Object, ok bool) {
	if o.UID != a.Object.UID {
		return o, false
	}
	switch a.Verb {
	case Delete:
		if a.ResourceVersion != o.ResourceVersion {
			return o, false
		}
		o.Terminating, o.Finalizers = true, a.Policy.Finalizers(o.Finalizers)
		return o, true
	case RemoveReferences, Unblock:
		return a.applyToOwners(o)
	case RemoveFinalizer:
		if a.Index >= len(o.Finalizers) || o.Finalizers[a.Index] != a.Finalizer ||
			a.Finalizer == OrphanFinalizer && a.ResourceVersion != o.ResourceVersion {
			return o, false
		}
		o.Finalizers = slices.Delete(slices.Clone(o.Finalizers), a.Index, a.Index+1)
		return o, true
	}
	return o, false
}

func (a Action) applyToOwners(o Object) (after Object, ok bool) {
	refs := slices.Clone(o.Owners)
	for _, p := range slices.Backward(a.Refs) {
		if p.Index >= len(refs) || refs[p.Index].UID != p.UID || refs[p.Index].Name != p.Name {
			return o, false
		}
		if a.Verb == Unblock {
			refs[p.Index].Block = false
		} else {
			refs = slices.Delete(refs, p.Index, p.Index+1)
		}
	}
	o.Owners = refs
	return o, true
}
