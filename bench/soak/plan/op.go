package plan

import (
	"fmt"
	"strings"
)

// Slot is a name that an object can have. Several objects can have it, one after the other.
type Slot struct {
	ID        int
	Kind      *Kind
	Namespace string
	Name      string
}

// NoMachine reports whether the slot is of a Node without a machine.
func (s *Slot) NoMachine() bool { return s.Kind.Kind == "Node" && s.ID%16 == 0 }

func (s *Slot) String() string { return s.Kind.Kind + " " + s.Namespace + "/" + s.Name }

// Path returns the path of the object, in one of its kind's versions.
func (s *Slot) Path(version int) string { return s.Kind.Path(version, s.Namespace, s.Name) }

// Reference is a reference to the last object of a slot.
type Reference struct {
	Owner   *Slot
	Version int
	Block   bool
	// Wrong is the error in the reference: "" for none, "version" for a version that was never
	// served, "kind" for a kind that the owner is not of.
	Wrong string
}

// Verb is what an operation does.
type Verb string

// The verbs.
const (
	Create   Verb = "create"
	Own      Verb = "own" // change owners
	Delete   Verb = "delete"
	Lift     Verb = "lift"   // remove the foreign finalizers
	Finish   Verb = "finish" // write the status of a Pod, a Job, a request or a volume, or renew a Lease
	Define   Verb = "define"
	NewSpace Verb = "create namespace"
	EndSpace Verb = "delete namespace"
)

// Op is one operation.
type Op struct {
	N         int // 0, 1, …
	Verb      Verb
	Slot      *Slot // nil for Define and the namespaces
	Kind      *Kind // Define
	Namespace string
	Owners    []Reference
	Policy    string // of Delete; "" for none
	Hold      bool   // Create: with a foreign finalizer
	Node      string // Create: the Node of a Pod or a VolumeAttachment; "" for none
	Volume    string // Create: the PersistentVolume of a VolumeAttachment
	Holder    string // Create: the holder of a Lease; "" for none
	Way       int    // Finish: a number to choose by how it ends
}

func (o Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", o.N, o.Verb)
	switch {
	case o.Slot != nil:
		fmt.Fprintf(&b, " %s", o.Slot)
	case o.Kind != nil:
		fmt.Fprintf(&b, " %s", o.Kind.Kind)
	default:
		fmt.Fprintf(&b, " %s", o.Namespace)
	}
	for _, r := range o.Owners {
		fmt.Fprintf(&b, " < %s %s", r.Owner, r.Owner.Kind.APIVersion(r.Version))
		if r.Block {
			b.WriteString("!")
		}
		if r.Wrong != "" {
			b.WriteString(" wrong " + r.Wrong)
		}
	}
	if o.Hold {
		b.WriteString(" + hold")
	}
	if o.Node != "" {
		fmt.Fprintf(&b, " on %s", o.Node)
	}
	if o.Verb == Finish {
		fmt.Fprintf(&b, " way %d", o.Way)
	}
	if o.Verb == Delete {
		fmt.Fprintf(&b, " policy %q", o.Policy)
	}
	return b.String()
}
