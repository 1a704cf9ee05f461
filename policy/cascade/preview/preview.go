package preview

import (
	"errors"
	"fmt"
	"maps"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Errors that Of returns.
var (
	ErrNotThere = errors.New("there is no such object")
	ErrPending  = errors.New("the collector deletes it anyway")
	ErrPolicy   = errors.New("not a propagation policy")
)

// Of previews the deletion of a target. An empty UID in target matches any object with the
// other coordinates.
//
// An owner that is not among the objects counts as absent only if its type was listed.
// Preview.Asked has these owners, for the caller to verify: the lists of two types are not
// from the same moment.
//
// The children of an object that is deleted or waits are its dependents, by kind, namespace
// and name. An object with several owners in the tree has its dependents where it appears
// first; elsewhere it appears without them. Everything that the deletion changes is in the
// counts. It also is in the tree, in Released (an owner above the target whose deletion
// waited for it), or in one of the remainders ([More]).
func Of(w World, target gc.Coordinates, policy gc.Policy, limits Limits) (Preview, error) {
	switch policy {
	case gc.Background, gc.Foreground, gc.Orphan:
	default:
		return Preview{}, fmt.Errorf("preview: %q: %w", policy, ErrPolicy)
	}
	s := newSim(w)
	at := place{gc.GroupOf(target.APIVersion), target.Kind, target.Namespace, target.Name}
	o, ok := s.objects[at]
	if !ok || target.UID != "" && o.UID != target.UID {
		return Preview{}, fmt.Errorf("preview: %w", ErrNotThere)
	}
	s.run()
	p := Preview{Policy: policy, Pending: len(s.changed)}
	if o, ok = s.objects[at]; !ok {
		return Preview{}, fmt.Errorf("preview: %w", ErrPending)
	}
	t := &tree{sim: s, before: maps.Clone(s.objects), limits: limits.withDefaults(), target: o.UID, policy: policy}
	t.link()
	clear(s.changed)
	s.touched = nil
	o.Terminating, o.Finalizers = true, policy.Finalizers(o.Finalizers)
	s.put(o)
	s.run()
	below := t.note()
	for s.serve(below) {
		s.run()
	}
	t.noteThen()
	p.Root = t.node(t.before[at], 0)
	p.Released = t.beside()
	p.Counts, p.Notes, p.Asked = t.counts(), t.notes, s.order
	return p, nil
}
