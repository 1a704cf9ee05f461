package preview

import (
	"slices"

	"github.com/ebb-agent/ebb/policy/gc"
)

// explain adds to a node why it has its outcome.
func (t *tree) explain(n *Node, was gc.Object, f *outcome) {
	for _, a := range f.actions {
		switch a.Verb {
		case gc.Delete:
			n.Policy, n.Reason = a.Policy, a.Reason
		case gc.RemoveReferences:
			for _, p := range a.Refs {
				n.Removed = append(n.Removed, t.reference(was, p.Reference))
			}
			if n.Reason == "" {
				n.Reason = a.Reason
			}
		}
	}
	if was.UID == t.target {
		n.Policy, n.Reason = t.policy, AskedFor
	}
	if f.outcome == Deleted {
		return
	}
	if f.outcome == Waiting {
		n.Finalizers = foreign(f.now)
		n.Reason = f.why.Reason
		for _, c := range f.why.Waiting {
			n.HeldBy = append(n.HeldBy, object(c))
		}
		return
	}
	if len(n.Removed) == 0 || f.outcome == Kept {
		n.Reason = f.why.Reason
	}
	for _, e := range f.why.Owners {
		if e.Judgement != "dangling" && !slices.ContainsFunc(n.Removed, func(o Object) bool { return o.UID == e.UID }) {
			n.Owners = append(n.Owners, Owner{object(e.Coordinates), e.Judgement})
		}
	}
}

// reference returns the owner that a reference of a dependent names.
func (t *tree) reference(dependent gc.Object, r gc.Reference) Object {
	ty := t.types[typeName{r.APIVersion, r.Kind}]
	o := Object{r.APIVersion, r.Kind, ty.Resource, dependent.Namespace, r.Name, r.UID}
	if !ty.Namespaced {
		o.Namespace = ""
	}
	return o
}

func object(c gc.Coordinates) Object {
	return Object{c.APIVersion, c.Kind, c.Resource, c.Namespace, c.Name, c.UID}
}
