package preview

import "github.com/ebb-agent/ebb/policy/gc"

// World is what is known of a cluster.
type World struct {
	// Types that are served. All objects of a type that is not Unwatched are in
	// Objects; of the others none is.
	Types   []gc.Type
	Objects []gc.Object
	// Known is what live reads returned for owners that Objects lacks (see
	// Preview.Asked), by coordinates without Resource.
	Known map[gc.Coordinates]gc.Answer
	// Orphaned are the UIDs of owners that the controller's journal has.
	Orphaned []string
	// ExcludedNamespaces are those in which the controller leaves all alone.
	ExcludedNamespaces []string
}

// Limits bound the tree. Zero fields mean the defaults.
type Limits struct {
	// Nodes in the whole tree. Default 1000.
	Nodes int
	// Alike is how many dependents of one kind with one outcome are shown of one
	// owner. Default 10.
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
	Waiting  Outcome = "waiting"  // deletion begins, and does not end
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
	// Then is what becomes of it once the finalizers of others are served; empty if
	// that is no different.
	Then Outcome `json:"then,omitempty"`
	// Policy by which it is deleted: the collector chooses, except for the target.
	Policy gc.Policy `json:"policy,omitempty"`
	// Reason of what is done to it, or why it stays, as policy/cascade has them.
	Reason gc.Reason `json:"reason"`
	// Removed are the owners whose references are taken away.
	Removed []Object `json:"removedOwners,omitempty"`
	// Owners that keep it.
	Owners []Owner `json:"owners,omitempty"`
	// Finalizers of others that hold it.
	Finalizers []string `json:"finalizers,omitempty"`
	// HeldBy are dependents that hold its foreground deletion; the first ten.
	HeldBy []Object `json:"heldBy,omitempty"`
	// Again: it stands elsewhere in the tree, with its dependents.
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

// Count is how many objects of a type have which outcome, in the tree and beside it.
type Count struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Resource   string `json:"resource,omitempty"`
	Deleted    int    `json:"deleted"`
	Orphaned   int    `json:"orphaned"`
	Kept       int    `json:"kept"`
	Waiting    int    `json:"waiting"`
}

// Note is about what other controllers take along.
type Note struct {
	Object  Object `json:"object"`
	Content int    `json:"content"` // objects in that namespace, or of that custom type
}

// Question is an owner that nobody has seen, and that the answer depends on.
type Question struct {
	gc.Coordinates      // with Resource
	Namespaced     bool // its type is
}

// Preview is what a deletion would do.
type Preview struct {
	Policy gc.Policy `json:"policy"`
	Root   *Node     `json:"root"`
	// Released are objects that do not depend on the target and change all the same:
	// owners whose own deletion waits for it.
	Released []*Node `json:"released,omitempty"`
	Counts   []Count `json:"counts"`
	Notes    []Note  `json:"notes,omitempty"`
	// Pending is how many objects the collector deletes or changes anyway.
	Pending int `json:"pending,omitempty"`
	// Asked are owners that were taken for absent or unknown because Objects and
	// Known lack them. Who can asks for them live, and previews again with Known.
	Asked []Question `json:"-"`
}
