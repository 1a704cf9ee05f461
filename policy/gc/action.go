package gc

// Collector names who asks for an action: in the log, metrics, events and the record.
type Collector string

// Owners is the collector of what has lost its owners, policy/cascade. The zero value
// means it, too.
const Owners Collector = "owners"

func (c Collector) String() string {
	if c == "" {
		return string(Owners)
	}
	return string(c)
}

// Root stands for a collector as the root of what is deleted because of it: its own deletions, and those
// of dependents that they leave behind.
func (c Collector) Root() Coordinates {
	return Coordinates{Kind: "Collector", Name: string(c), UID: "collector/" + string(c)}
}

// IsCollector says whether a root stands for a collector, as no object does.
func (c Coordinates) IsCollector() bool { return c.APIVersion == "" && c.Kind == "Collector" }

// Verb is what an action asks the caller to do.
type Verb uint8

// The verbs. Verify and Read are answered with what a live read returned (an [Answer]), Warn
// and Withdraw with nothing, all others with how it went (a [Result]).
const (
	Verify           Verb = iota + 1 // read an owner live; one read serves all its dependents
	Read                             // read the object live, because what is known of it may be old
	Delete                           // with Policy; UID and ResourceVersion as preconditions
	RemoveReferences                 // take the references in Refs away
	Unblock                          // set blockOwnerDeletion of the references in Refs to false
	RemoveFinalizer                  // take Finalizer, at Index, off
	Record                           // write the object's UID into the durable journal of orphaned owners
	Withdraw                         // take it out again, before any later Record; nothing depends on when, or whether
	Warn                             // emit an event on the object, by Reason
	// FailPod sets phase Failed in a Pod's status, for whoever counts failures. Its answer
	// has the Pod's new version.
	FailPod
	// DeleteVolume has Driver delete what a PersistentVolume stands for, and then the
	// object; unless a live read, just before, speaks against it.
	DeleteVolume
	// Bound asks whether a Pod is bound to the Node in Object, which need not exist. It is answered
	// with Exists or Absent, as a live read.
	Bound
	// Inventory asks for the list of machines, of whoever has it. It is answered with that,
	// and its Object is who asks.
	Inventory
)

func (v Verb) String() string {
	names := [...]string{"nothing", "verify", "read", "delete", "remove-references", "unblock", "remove-finalizer", "record", "withdraw", "warn", "fail-pod", "delete-volume", "bound", "inventory"}
	if int(v) < len(names) {
		return names[v]
	}
	return "unknown verb"
}

// Reads says whether an action is answered with an [Answer].
func (v Verb) Reads() bool { return v == Verify || v == Read || v == Bound }

// Policy is the propagation policy of a Delete, as the API spells it.
type Policy string

// The propagation policies of the API.
const (
	Background Policy = "Background"
	Foreground Policy = "Foreground"
	Orphan     Policy = "Orphan"
)

// Position is an owner reference of the object that an action is about: where it
// stands in the list, and what must be found there.
type Position struct {
	Index int
	Reference
}

// Action is something for the caller to do, and why.
type Action struct {
	Collector Collector // which one asks
	ID        uint64    // quoted in the answer; 0 if none is wanted
	Verb      Verb
	Object    Coordinates
	// ResourceVersion is the one the decision rests on. A Delete always has one, and
	// it is a precondition beside the UID.
	ResourceVersion string
	Policy          Policy
	Disrupted       bool   // of a FailPod: it gets the condition DisruptionTarget, too (KEP-3329)
	NoGrace         bool   // of a Delete: gracePeriodSeconds is 0
	Driver          string // of a DeleteVolume
	Refs            []Position
	Finalizer       string
	Index           int // of Finalizer
	Reason          Reason
	Owner           Coordinates // the first owner that Reason is about
	// Root of a Delete is the topmost owner whose going caused it, or what took that
	// along: a Namespace, a CustomResourceDefinition.
	Root Coordinates
}

// Reason says why an action is asked for, or why an object is kept.
type Reason string
