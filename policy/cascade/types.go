package cascade

import "time"

// The two finalizers that the API server sets on an object that is deleted with
// a propagation policy, and that a collector takes off (metav1.FinalizerOrphanDependents,
// metav1.FinalizerDeleteDependents).
const (
	OrphanFinalizer     = "orphan"
	ForegroundFinalizer = "foregroundDeletion"
)

// Type is a kind of object in the version in which it is watched.
type Type struct {
	APIVersion string // "apps/v1", "v1"
	Kind       string // or [Second] of it
	Resource   string // "deployments"
	Namespaced bool
	// Aggregated types are served by another API server, whose storage may ignore
	// preconditions: an object is read just before it is deleted. They are in
	// quarantine; see quarantine.go.
	Aggregated bool
	// Unwatched versions and types are not listed: references to them are verified
	// by live reads.
	Unwatched bool
	// Excluded types are never acted on; as owners they count like any other.
	Excluded bool
}

// Coordinates name one object. Two objects may bear the same name one after the
// other, and two names may be given for one UID: only all of it is the object.
type Coordinates struct {
	APIVersion string
	Kind       string
	Resource   string // set in actions, ignored in inputs
	Namespace  string
	Name       string
	UID        string
}

// Reference is an owner reference as it is written in an object.
type Reference struct {
	APIVersion string
	Kind       string
	Name       string
	UID        string
	Block      bool // blockOwnerDeletion is true
}

// Object is what the graph wants to know of an object.
type Object struct {
	APIVersion      string
	Kind            string
	Namespace       string
	Name            string
	UID             string
	ResourceVersion string
	Owners          []Reference
	Finalizers      []string
	Terminating     bool // deletionTimestamp is set
}

// Verb is what an action asks the caller to do.
type Verb uint8

// The verbs. Verify and Read are answered with [Collector.Answered], Warn and Withdraw
// with nothing, all others with [Collector.Finished].
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
)

func (v Verb) String() string {
	names := [...]string{"nothing", "verify", "read", "delete", "remove-references", "unblock", "remove-finalizer", "record", "withdraw", "warn"}
	if int(v) < len(names) {
		return names[v]
	}
	return "unknown verb"
}

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
	ID     uint64 // quoted in the answer; 0 if none is wanted
	Verb   Verb
	Object Coordinates
	// ResourceVersion is the one the decision rests on. A Delete always has one, and
	// it is a precondition beside the UID.
	ResourceVersion string
	Policy          Policy
	Refs            []Position
	Finalizer       string
	Index           int // of Finalizer
	Reason          Reason
	Owner           Coordinates // the first owner that Reason is about
	// Root of a Delete is the topmost owner whose going caused it, or what took that
	// along: a Namespace, a CustomResourceDefinition.
	Root Coordinates
}

// State is what a live read told.
type State uint8

// The answers. Unknown is anything that proves neither of the others: a bare 404
// of a path, 403, 5xx, a timeout, a type that cannot be resolved.
const (
	Unknown State = iota
	Exists        // Answer.Object is what stands there, with whatever UID
	Absent        // a Status NotFound whose details name that very object
	TooBusy       // Unknown, because the server wants fewer requests
)

// Answer is what a live read of an action's coordinates told.
type Answer struct {
	State  State
	Object Object // if it exists
}

// Result is how an action went.
type Result uint8

// The results.
const (
	Failed    Result = iota // anything else: tried again later
	Done                    // a patch's response was fed to Patched before
	Conflict                // a precondition or a test did not hold
	Gone                    // a Status NotFound whose details name that very object
	Forbidden               // 403, an admission webhook's refusal: tried again, seldom
	// TooMany: the server wants fewer requests, and says nothing of the object. How
	// many are sent is the caller's business; this one is asked for again soon.
	TooMany
	// Withheld: the caller did not want to. The same is not asked for again until
	// the object changes, or [Collector.Release].
	Withheld
	// Deferred: not now. The caller says before, by [Collector.Slow] or
	// [Collector.Hold], when it wants more of these.
	Deferred
)

func (r Result) String() string {
	return [...]string{"failed", "done", "conflict", "gone", "forbidden", "throttled", "withheld", "deferred"}[min(r, Deferred)]
}

// Reason says why an action is asked for, or why an object is kept.
type Reason string

// Reasons of actions.
const (
	OwnersAbsent    Reason = "owners_absent"     // no owner exists any more
	OwnersWaiting   Reason = "owners_waiting"    // no owner is left but such that wait for their dependents to go
	ReferencesStale Reason = "references_stale"  // a solid owner remains, the others are absent or waiting
	OwnerOrphans    Reason = "owner_orphans"     // the owner is deleted and leaves its dependents behind
	CircleOfOwners  Reason = "circle_of_owners"  // owners wait for each other
	DependentsGone  Reason = "dependents_gone"   // nothing holds the finalizer any more
	TypesGivenUp    Reason = "types_given_up"    // the same, as far as types could be listed: warn somebody
	OwnerUnverified Reason = "owner_unverified"  // nobody has proven that the owner is absent, or there
	OwnerMayChange  Reason = "owner_may_change"  // that an owner waits is not permanent
	ObjectMayChange Reason = "object_may_change" // the object was changed, or its effect not seen, or its type is aggregated
	WitnessWanted   Reason = "witness_wanted"    // another object of its type was not found: does its server answer truly?
	OrphaningBegins Reason = "orphaning_begins"  // the owner is deleted with orphan
	// OrphaningCalledOff: the owner is there, and not to be orphaned any more.
	OrphaningCalledOff Reason = "orphaning_called_off"
	InvalidNamespace   Reason = "invalid_namespace" // the owner was seen in another namespace
	ChangesTooOften    Reason = "changes_too_often" // it changed between each read and the request; tried again, ever more seldom
	HeldByExcluded     Reason = "held_by_excluded"  // all that still holds a deleted owner is excluded: see Collector.Holding
)

// Reasons to keep an object.
const (
	KeptNoOwners     Reason = "no_owners"
	KeptSolidOwner   Reason = "solid_owner"
	KeptUnknownOwner Reason = "unknown_owner"         // unknown never deletes
	KeptAbsenceYoung Reason = "owner_not_found_once"  // of another API server: waits for the second NotFound
	KeptNoWitness    Reason = "owner_without_witness" // of another API server: nothing proves that it answers truly
	KeptDisputed     Reason = "live_read_differs"     // of another API server: a live read tells otherwise than its watch
	KeptUnresolvable Reason = "unresolvable"          // cluster-scoped, with a namespaced owner
	KeptTerminating  Reason = "terminating"           // already deleted; others hold it
	KeptDependents   Reason = "waits_for_dependents"
	KeptJournal      Reason = "waits_for_journal" // the journal of orphaned owners does not have it yet
	KeptSync         Reason = "waits_for_types"   // some type has not been listed
	KeptExcluded     Reason = "excluded"
	KeptUnserved     Reason = "type_unserved"
	KeptInFlight     Reason = "in_flight" // an action is on its way, or its effect not seen yet
	KeptRetry        Reason = "retry"     // an action did not succeed; again later
	KeptSlowed       Reason = "slowed"    // deletions of its root are asked for little by little
	KeptHeld         Reason = "held"      // none are
	KeptNotKnown     Reason = "not_known" // the graph has no such object
)

// KeepOrphaned is the default of Config.KeepOrphaned.
const KeepOrphaned = 24 * time.Hour

// Config has the times the rules need. Zero fields mean the defaults.
type Config struct {
	// FreshFor is how old a live read may be when it is acted on. Default 1s.
	FreshFor time.Duration
	// ForegroundPatience is how long a type that is not listed holds the end of
	// foreground deletions. Default 1m.
	ForegroundPatience time.Duration
	// Settle is how long the effect of a successful action may take to be seen,
	// before the object is read live. Default 30s.
	Settle time.Duration
	// AbsenceAfter is the least time between the two NotFounds that an owner of another
	// API server is absent after. Default 2m.
	AbsenceAfter time.Duration
	// TrustAggregated believes other API servers at once, for a simulation in which
	// nobody lies and time does not go on.
	TrustAggregated bool
	// Recheck is how often an owner is read whose type no watch tells about.
	// Default 1m.
	Recheck time.Duration
	// RetryMin and RetryMax bound the pause after a failure, which doubles from
	// one to the other. Defaults 250ms, 5m.
	RetryMin, RetryMax time.Duration
	// KeepOrphaned is how long an orphaned owner stays in the journal at least. Default
	// [KeepOrphaned].
	KeepOrphaned time.Duration
	// Tombstones is how many UIDs are remembered as gone although nothing in the
	// graph refers to them. Default 8192.
	Tombstones int
	// ExcludedNamespaces are those whose objects are never acted on; see
	// [Collector.ExcludeNamespaces].
	ExcludedNamespaces []string
}

func (c Config) withDefaults() Config {
	or := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	or(&c.FreshFor, time.Second)
	or(&c.ForegroundPatience, time.Minute)
	or(&c.Settle, 30*time.Second)
	or(&c.AbsenceAfter, 2*time.Minute)
	or(&c.Recheck, time.Minute)
	or(&c.KeepOrphaned, KeepOrphaned)
	or(&c.RetryMin, 250*time.Millisecond)
	or(&c.RetryMax, 5*time.Minute)
	if c.Tombstones <= 0 {
		c.Tombstones = 8192
	}
	return c
}
