package preview

import "github.com/ebb-agent/ebb/policy/gc"

// World is the known state of a cluster.
type World struct {
	// Types are the served types. Objects has all objects of a type, or none if the type is
	// Unwatched.
	Types   []gc.Type
	Objects []gc.Object
	// Known has the results of live reads of owners that Objects lacks (see Preview.Asked),
	// by coordinates without Resource.
	Known map[gc.Coordinates]gc.Answer
	// ExcludedNamespaces are the namespaces in which the controller changes nothing.
	ExcludedNamespaces []string
}

// Limits bound the tree. Zero fields mean the defaults.
type Limits struct {
	// Nodes in the whole tree. Default 1000.
	Nodes int
	// Alike is the maximum number of dependents of one kind with one outcome that are shown
	// per owner. Default 10.
	Alike int
	// Depth of the tree. Default 50.
	Depth int
}

func (l Limits) withDefaults() Limits {
	or := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	or(&l.Nodes, 1000)
	or(&l.Alike, 10)
	or(&l.Depth, 50)
	return l
}

// Outcome is what becomes of an object.
type Outcome string

// The outcomes.
const (
	Deleted  Outcome = "deleted"
	Orphaned Outcome = "orphaned" // stays, without the references to its owner
	Kept     Outcome = "kept"     // stays; maybe with fewer references
	Waiting  Outcome = "waiting"  // deletion begins, but does not complete
)

// AskedFor is why the target is deleted.
const AskedFor gc.Reason = "asked_for"

// Object names an object.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Resource   string `json:"resource,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// Owner is an owner reference, and how it is judged in the end.
type Owner struct {
	Object
	Judgement string `json:"judgement"` // solid, orphaning, waiting, dangling, unknown, unresolvable
}

// Node is an object in the tree.
type Node struct {
	Object
	Outcome Outcome `json:"outcome"`
	// Then is the outcome once the foreign finalizers are removed; empty if it is the same.
	Then Outcome `json:"then,omitempty"`
	// Policy is the propagation policy of its deletion. The collector chooses it, except
	// for the target.
	Policy gc.Policy `json:"policy,omitempty"`
	// Reason is why it is deleted or changed, or why it stays, as policy/cascade has them.
	Reason gc.Reason `json:"reason"`
	// Removed are the owners whose references are removed.
	Removed []Object `json:"removedOwners,omitempty"`
	// Owners are those that keep it.
	Owners []Owner `json:"owners,omitempty"`
	// Finalizers are the foreign finalizers that hold it.
	Finalizers []string `json:"finalizers,omitempty"`
	// HeldBy are dependents that hold its foreground deletion; the first ten.
	HeldBy []Object `json:"heldBy,omitempty"`
	// Again is set if it appears elsewhere in the tree, with its dependents.
	Again      bool    `json:"again,omitempty"`
	Dependents []*Node `json:"dependents,omitempty"`
	More       []More  `json:"more,omitempty"`
}

// More are dependents that the tree leaves out.
type More struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Resource   string  `json:"resource,omitempty"`
	Outcome    Outcome `json:"outcome"`
	Then       Outcome `json:"then,omitempty"`
	Count      int     `json:"count"`
}

// Count is the number of objects of a type per outcome, in the tree and beside it.
type Count struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Resource   string `json:"resource,omitempty"`
	Deleted    int    `json:"deleted"`
	Orphaned   int    `json:"orphaned"`
	Kept       int    `json:"kept"`
	Waiting    int    `json:"waiting"`
}

// Note counts the objects that other controllers delete with an object.
type Note struct {
	Object  Object `json:"object"`
	Content int    `json:"content"` // objects in that namespace, or of that custom type
}

// Question is an owner that was not seen, and on which the answer depends.
type Question struct {
	gc.Coordinates      // with Resource
	Namespaced     bool // whether its type is namespaced
}

// Preview is what a deletion would do.
type Preview struct {
	Policy gc.Policy `json:"policy"`
	Root   *Node     `json:"root"`
	// Released are objects that do not depend on the target but change, too: owners whose
	// own deletion waits for it.
	Released []*Node `json:"released,omitempty"`
	Counts   []Count `json:"counts"`
	Notes    []Note  `json:"notes,omitempty"`
	// Pending is how many objects the collector deletes or changes anyway.
	Pending int `json:"pending,omitempty"`
	// Asked are owners that were treated as absent or unknown because Objects and Known
	// lack them. A caller that can read them live does so, and previews again with Known.
	Asked []Question `json:"-"`
}
