package cascade

import (
	"fmt"
	"slices"

	"github.com/ebb-agent/ebb/policy/gc"
)

// read is a live read of coordinates.
func (s *server) read(o gc.Coordinates, why gc.Reason) gc.Answer {
	t := s.types[typeKey(o.APIVersion, o.Kind)]
	if t == nil || !t.served {
		return gc.Answer{State: gc.Unknown} // a bare 404
	}
	found := s.find(t.store, o.Namespace, o.Name)
	if found == nil || t.Aggregated && s.lies == lyingNow {
		return gc.Answer{State: gc.Absent}
	}
	answer := gc.Answer{State: gc.Exists, Object: snapshot(found)}
	if v, _ := version(found.ResourceVersion); t.Aggregated {
		answer.Object.ResourceVersion = fmt.Sprint(v/2 + 1) // it counts in its own way
		if why != WitnessWanted {
			s.asRead[found.UID] = answer.Object
		}
	}
	answer.Object.APIVersion = o.APIVersion
	return answer
}

// execute carries an action of the collector out, and returns its result and the object in
// the response to a patch. What the true world forbids is noted.
func (s *server) execute(a gc.Action) (gc.Result, *gc.Object) {
	t := s.types[typeKey(a.Object.APIVersion, a.Object.Kind)]
	if t == nil || !t.served {
		return gc.Failed, nil
	}
	o := s.find(t.store, a.Object.Namespace, a.Object.Name)
	if o == nil {
		return gc.Gone, nil
	}
	if o.UID != a.Object.UID {
		return gc.Conflict, nil
	}
	if s.excluded(o) && a.Verb != gc.RemoveFinalizer {
		s.forbid(a, "it is excluded")
	}
	switch a.Verb {
	case gc.Delete:
		return s.executeDelete(a, o, t), nil
	case gc.RemoveReferences, gc.Unblock:
		return s.executePatch(a, o)
	case gc.RemoveFinalizer:
		return s.executeFinalizer(a, o)
	}
	panic(fmt.Sprint("cannot execute ", a.Verb))
}

func (s *server) executeDelete(a gc.Action, o *stored, t *servedAs) gc.Result {
	if a.ResourceVersion == "" {
		s.forbid(a, "the UID alone does not refuse what was adopted meanwhile")
	}
	if a.ResourceVersion != o.ResourceVersion && !t.Aggregated {
		return gc.Conflict
	}
	if was, ok := s.asRead[o.UID]; t.Aggregated && ok && changedSince(was, o) {
		// An aggregated server's storage may ignore preconditions. Then what changes
		// between the read and the request is lost; nobody can do better.
		s.remove(o, a.Policy)
		return gc.Done
	}
	if o.Terminating {
		s.forbid(a, "it is terminating already")
	}
	if len(o.Owners) == 0 {
		s.forbid(a, "it has no owner")
	}
	if s.unresolvable(o) {
		s.forbid(a, "an owner is unresolvable")
	}
	for _, r := range o.Owners {
		if why := s.mayGo(o, r); why != "" {
			s.forbid(a, "%s", why)
		}
		if s.leftBehind[r.UID] && s.byUID(r.UID) == nil {
			s.forbid(a, "its owner %s left it behind", r.Name)
		}
	}
	if slices.Contains(o.Finalizers, gc.OrphanFinalizer) && a.Policy != gc.Orphan {
		s.forbid(a, "policy %s strips the finalizer orphan", a.Policy)
	}
	s.checkRoot(a, o)
	s.deleted++
	s.remove(o, a.Policy)
	return gc.Done
}

func changedSince(was gc.Object, o *stored) bool {
	return was.Terminating != o.Terminating || !slices.Equal(was.Owners, o.Owners) || !slices.Equal(was.Finalizers, o.Finalizers)
}

func (s *server) executePatch(a gc.Action, o *stored) (gc.Result, *gc.Object) {
	after, ok := a.Apply(o.Object)
	if !ok {
		return gc.Conflict, nil
	}
	for _, p := range a.Refs {
		if why := s.mayGo(o, p.Reference); a.Verb == gc.RemoveReferences && why != "" && s.orphans[p.UID] == 0 {
			s.forbid(a, "%s", why)
		}
	}
	s.setOwners(o, after.Owners)
	response := snapshot(o)
	return gc.Done, &response
}

func (s *server) executeFinalizer(a gc.Action, o *stored) (gc.Result, *gc.Object) {
	after, ok := a.Apply(o.Object)
	if !ok {
		return gc.Conflict, nil
	}
	if !o.Terminating {
		s.forbid(a, "nobody deletes it")
	}
	if a.Finalizer == gc.OrphanFinalizer {
		if _, recorded := s.journal[o.UID]; !recorded {
			s.forbid(a, "nobody would know that its dependents are to stay")
		}
		s.leftBehind[o.UID] = true
	}
	s.setFinalizers(o, after.Finalizers)
	if s.byUID(o.UID) == nil {
		return gc.Done, nil // the response is an object that is gone: nothing to observe
	}
	response := snapshot(o)
	return gc.Done, &response
}
