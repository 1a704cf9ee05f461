package preview

import (
	"cmp"
	"slices"

	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
)

// outcome is what became of an object.
type outcome struct {
	outcome, then Outcome
	why           cascade.Explanation // if it still exists
	actions       []gc.Action
	now           gc.Object // its state, if it still exists
}

// tree builds the answer from what a simulation did.
type tree struct {
	*sim
	before map[place]gc.Object // the world before the deletion
	limits Limits
	target string // UID
	policy gc.Policy

	dependents map[string][]place // by UID of the owner, in the order of the tree
	outcomes   map[string]*outcome
	nodes      int
	met        map[string]bool
	totals     map[typeName]*Count
	notes      []Note
}

// link finds the dependents of each owner. Only the UID of a reference counts: orphaning
// removes it whatever its other fields are.
func (t *tree) link() {
	t.dependents, t.outcomes = make(map[string][]place), make(map[string]*outcome)
	t.met, t.totals = make(map[string]bool), make(map[typeName]*Count)
	for p, o := range t.before {
		for i, r := range o.Owners {
			twice := slices.ContainsFunc(o.Owners[:i], func(q gc.Reference) bool { return q.UID == r.UID })
			if r.UID != o.UID && !twice {
				t.dependents[r.UID] = append(t.dependents[r.UID], p)
			}
		}
	}
	for _, list := range t.dependents {
		slices.SortFunc(list, func(a, b place) int {
			return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.group, b.group), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
		})
	}
}

// closure visits the target and all that depends on it, directly or not.
func (t *tree) closure(visit func(gc.Object)) {
	seen := map[string]bool{t.target: true}
	var stack []gc.Object
	for _, o := range t.before {
		if o.UID == t.target {
			stack = append(stack, o)
		}
	}
	for len(stack) > 0 {
		o := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		visit(o)
		for _, p := range t.dependents[o.UID] {
			if d := t.before[p]; !seen[d.UID] {
				seen[d.UID] = true
				stack = append(stack, d)
			}
		}
	}
}

// note records the outcome of each object while foreign finalizers are in place. It returns
// the target and everything that depends on it.
func (t *tree) note() (below []place) {
	t.closure(func(o gc.Object) {
		below = append(below, placeOf(o))
		t.noteOf(o)
	})
	for _, p := range t.touched {
		t.noteOf(t.before[p])
	}
	return below
}

func (t *tree) noteOf(o gc.Object) {
	if t.outcomes[o.UID] != nil {
		return
	}
	f := &outcome{actions: slices.Clone(t.changed[o.UID])}
	now, there := t.still(o)
	f.outcome = t.outcome(o, now, there, f.actions)
	if there {
		f.now = now
		f.why = t.c.Explain(gc.Coordinates{APIVersion: now.APIVersion, Kind: now.Kind, Namespace: now.Namespace, Name: now.Name, UID: now.UID})
	}
	t.outcomes[o.UID] = f
}

func (t *tree) still(o gc.Object) (now gc.Object, there bool) {
	now, there = t.objects[placeOf(o)]
	return now, there && now.UID == o.UID
}

// noteThen records the outcomes that change once the foreign finalizers are removed.
func (t *tree) noteThen() {
	for _, p := range t.touched {
		o := t.before[p]
		f := t.outcomes[o.UID]
		if f == nil {
			f = &outcome{outcome: Kept, now: o}
			f.why.Reason = cascade.KeptTerminating
			t.outcomes[o.UID] = f
		}
		now, there := t.still(o)
		if then := t.outcome(o, now, there, t.changed[o.UID]); then != f.outcome {
			f.then = then
			f.actions = slices.Clone(t.changed[o.UID])
		}
	}
}

// beside returns the objects that change but do not depend on the target: owners whose
// deletion waited for it.
func (t *tree) beside() (list []*Node) {
	for _, p := range t.touched {
		o := t.before[p]
		if t.met[o.UID] {
			continue
		}
		if t.nodes >= t.limits.Nodes {
			t.met[o.UID] = true
			t.count(o, t.outcomes[o.UID])
			continue
		}
		list = append(list, t.alone(o))
	}
	return list
}

func (t *tree) outcome(was, now gc.Object, there bool, actions []gc.Action) Outcome {
	orphaned := slices.ContainsFunc(actions, func(a gc.Action) bool {
		return a.Verb == gc.RemoveReferences && a.Reason == cascade.OwnerOrphans
	})
	switch {
	case !there:
		return Deleted
	case now.Terminating && (!was.Terminating || was.UID == t.target):
		return Waiting
	case orphaned:
		return Orphaned
	}
	return Kept
}

// node describes an object and, below it, its dependents. Beyond the limits it
// only counts.
func (t *tree) node(o gc.Object, depth int) *Node {
	again := t.met[o.UID]
	n, f := t.alone(o), t.outcomes[o.UID]
	switch {
	case again:
		n.Again = len(t.dependents[o.UID]) > 0
	case f.outcome == Deleted || f.outcome == Waiting || f.then != "":
		t.below(n, o, depth+1)
	}
	return n
}

func (t *tree) alone(o gc.Object) *Node {
	f := t.outcomes[o.UID]
	n := &Node{Object: t.name(o), Outcome: f.outcome, Then: f.then}
	t.explain(n, o, f)
	t.nodes++
	if !t.met[o.UID] {
		t.met[o.UID] = true
		t.count(o, f)
	}
	return n
}

// below adds the dependents of an object that is deleted or waits.
func (t *tree) below(n *Node, o gc.Object, depth int) {
	shown, hidden := make(map[More]int), make(map[More]int) // the keys have no Count
	var order []More
	for _, p := range t.dependents[o.UID] {
		d := t.before[p]
		f := t.outcomes[d.UID]
		group := More{d.APIVersion, d.Kind, t.types[typeName{d.APIVersion, d.Kind}].Resource, f.outcome, f.then, 0}
		if shown[group] < t.limits.Alike && t.nodes < t.limits.Nodes && depth <= t.limits.Depth {
			shown[group]++
			n.Dependents = append(n.Dependents, t.node(d, depth))
			continue
		}
		if hidden[group] == 0 {
			order = append(order, group)
		}
		hidden[group]++
		t.countBelow(d)
	}
	for _, group := range order {
		group.Count = hidden[group]
		n.More = append(n.More, group)
	}
}

// countBelow counts an object that the tree leaves out, and what is below it.
func (t *tree) countBelow(o gc.Object) {
	stack := []gc.Object{o}
	for len(stack) > 0 {
		o := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if t.met[o.UID] {
			continue
		}
		t.met[o.UID] = true
		f := t.outcomes[o.UID]
		t.count(o, f)
		if f.outcome == Deleted || f.outcome == Waiting || f.then != "" {
			for _, p := range t.dependents[o.UID] {
				stack = append(stack, t.before[p])
			}
		}
	}
}

func (t *tree) count(o gc.Object, f *outcome) {
	key := typeName{o.APIVersion, o.Kind}
	c := t.totals[key]
	if c == nil {
		c = &Count{APIVersion: o.APIVersion, Kind: o.Kind, Resource: t.types[key].Resource}
		t.totals[key] = c
	}
	t.takesAlong(o, f)
	switch f.outcome {
	case Deleted:
		c.Deleted++
	case Orphaned:
		c.Orphaned++
	case Kept:
		c.Kept++
	case Waiting:
		c.Waiting++
	}
}

func (t *tree) counts() (list []Count) {
	for _, c := range t.totals {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.APIVersion, b.APIVersion))
	})
	return list
}

// takesAlong notes what other controllers delete with an object: the content of a
// namespace, the objects of a custom type.
func (t *tree) takesAlong(o gc.Object, f *outcome) {
	if f.outcome != Deleted && f.outcome != Waiting {
		return
	}
	content := 0
	switch {
	case o.APIVersion == "v1" && o.Kind == "Namespace":
		for p := range t.before {
			if p.namespace == o.Name {
				content++
			}
		}
	case gc.GroupOf(o.APIVersion) == "apiextensions.k8s.io" && o.Kind == "CustomResourceDefinition":
		for _, c := range t.before {
			if ty := t.types[typeName{c.APIVersion, c.Kind}]; ty.Resource+"."+gc.GroupOf(c.APIVersion) == o.Name {
				content++
			}
		}
	default:
		return
	}
	t.notes = append(t.notes, Note{t.name(o), content})
}

func (t *tree) name(o gc.Object) Object {
	ty := t.types[typeName{o.APIVersion, o.Kind}]
	return Object{o.APIVersion, o.Kind, ty.Resource, o.Namespace, o.Name, o.UID}
}
