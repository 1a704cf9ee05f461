package gc

// Collector is the name of the collector that asks for an action: in the log, metrics,
// events and the record.
type Collector string

// Owners is policy/cascade, the collector of objects without owners. The zero value means
// it, too.
const Owners Collector = "owners"

func (c Collector) String() string {
	if c == "" {
		return string(Owners)
	}
	return string(c)
}

// Root returns coordinates that represent the collector. They are the root of its own
// deletions, and of the deletions of dependents that those leave behind.
func (c Collector) Root() Coordinates {
	return Coordinates{Kind: "Collector", Name: string(c), UID: "collector/" + string(c)}
}

// IsCollector reports whether a root represents a collector. No object has such
// coordinates.
func (c Coordinates) IsCollector() bool { return c.APIVersion == "" && c.Kind == "Collector" }

// Verb is what an action asks the caller to do.
type Verb uint8

// The verbs. Verify, Read and Bound are answered with what a live read returned (an
// [Answer]), Inventory with the list of machines, Warn and Withdraw with nothing, all
// others with a [Result].
const (
	Verify           Verb = iota + 1 // read an owner live; one read serves all its dependents
	Read                             // read the object live, because what is known of it may be old
	Delete                           // with Policy; UID and ResourceVersion as preconditions
	RemoveReferences                 // remove the references in Refs
	Unblock                          // set blockOwnerDeletion of the references in Refs to false
	RemoveFinalizer                  // remove Finalizer, which is at Index
	Record                           // write the object's UID into the durable journal of orphaned owners
	Withdraw                         // remove it again, before any later Record; best effort
	Warn                             // emit an event on the object, by Reason
	// FailPod sets phase Failed in a Pod's status, for controllers that count failures. Its
	// answer has the Pod's new version.
	FailPod
	// DeleteVolume makes Driver delete the storage of a PersistentVolume, and then deletes
	// the object; unless a live read directly before speaks against it.
	DeleteVolume
	// Bound asks whether a Pod is bound to the Node in Object, which need not exist. The
	// answer is Exists or Absent, as for a live read.
	Bound
	// Inventory asks for the list of machines, from whatever source the caller has. The
	// answer is that list. Object is the Node on whose behalf the collector asks.
	Inventory
)

func (v Verb) String() string {
	names := [...]string{"nothing", "verify", "read", "delete", "remove-references", "unblock", "remove-finalizer", "record", "withdraw", "warn", "fail-pod", "delete-volume", "bound", "inventory"}
	if int(v) < len(names) {
		return names[v]
	}
	return "unknown verb"
}

// Reads reports whether an action is answered with an [Answer].
func (v Verb) Reads() bool { return v == Verify || v == Read || v == Bound }

// Policy is the propagation policy of a Delete, as the API spells it.
type Policy string

// The propagation policies of the API.
const (
	Background Policy = "Background"
	Foreground Policy = "Foreground"
	Orphan     Policy = "Orphan"
)

// Position is an owner reference of an action's object: its index in the list, and what
// must be found there.
type Position struct {
	Index int
	Reference
}

// Action is something for the caller to do, and why.
type Action struct {
	Collector Collector // that asks
	ID        uint64    // quoted in the answer; 0 if none is wanted
	Verb      Verb
	Object    Coordinates
	// ResourceVersion is the version that the decision rests on. A Delete always has one,
	// as a precondition beside the UID.
	ResourceVersion string
	Policy          Policy
	Disrupted       bool   // of a FailPod: it gets the condition DisruptionTarget, too (KEP-3329)
	Generation      int64  // of the object of a FailPod; 0: not known
	NoGrace         bool   // of a Delete: gracePeriodSeconds is 0
	Driver          string // of a DeleteVolume
	Refs            []Position
	Finalizer       string
	Index           int // of Finalizer
	Reason          Reason
	Owner           Coordinates // the first owner that Reason is about
	// Root of a Delete is the topmost owner whose deletion caused it, or the Namespace or
	// CustomResourceDefinition whose deletion includes that owner.
	Root Coordinates
}

// Reason is why an action is asked for, or why an object is kept.
type Reason string
