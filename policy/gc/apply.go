package gc

import "slices"

// Finalizers is what a DELETE with this policy makes of an object's finalizers,
// as the API server does it (deletionFinalizersForGarbageCollection): any other of
// the collector's finalizers is stripped. Without a policy ("") they stay; a type
// whose default is to orphan is none that is known here.
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
		return before // as they stood
	}
	return after
}

// Gone says whether the API server drops the object: it is deleted, and nothing
// holds it.
func (o Object) Gone() bool { return o.Terminating && len(o.Finalizers) == 0 }

// Apply is what the request that an action asks for makes of an object; not ok if
// a precondition or a test refuses it. It is the model of the API server that
// tests and previews share: resourceVersion is left to them, and grace periods are
// taken to be over.
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
