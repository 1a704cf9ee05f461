package cascade

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Reasons of actions.
const (
	OwnersAbsent    gc.Reason = "owners_absent"     // no owner exists any more
	OwnersWaiting   gc.Reason = "owners_waiting"    // no owner is left but such that wait for their dependents to go
	ReferencesStale gc.Reason = "references_stale"  // a solid owner remains, the others are absent or waiting
	OwnerOrphans    gc.Reason = "owner_orphans"     // the owner is deleted and leaves its dependents behind
	CircleOfOwners  gc.Reason = "circle_of_owners"  // owners wait for each other
	DependentsGone  gc.Reason = "dependents_gone"   // nothing holds the finalizer any more
	TypesGivenUp    gc.Reason = "types_given_up"    // the same, as far as types could be listed: warn somebody
	OwnerUnverified gc.Reason = "owner_unverified"  // nobody has proven that the owner is absent, or there
	OwnerMayChange  gc.Reason = "owner_may_change"  // that an owner waits is not permanent
	ObjectMayChange gc.Reason = "object_may_change" // the object was changed, or its effect not seen, or its type is aggregated
	WitnessWanted   gc.Reason = "witness_wanted"    // another object of its type was not found: does its server answer truly?
	OrphaningBegins gc.Reason = "orphaning_begins"  // the owner is deleted with orphan
	// OrphaningCalledOff: the owner is there, and not to be orphaned any more.
	OrphaningCalledOff gc.Reason = "orphaning_called_off"
	InvalidNamespace   gc.Reason = "invalid_namespace" // the owner was seen in another namespace
	ChangesTooOften    gc.Reason = "changes_too_often" // it changed between each read and the request; tried again, ever more seldom
	HeldByExcluded     gc.Reason = "held_by_excluded"  // all that still holds a deleted owner is excluded: see Collector.Holding
)

// Reasons to keep an object.
const (
	KeptNoOwners     gc.Reason = "no_owners"
	KeptSolidOwner   gc.Reason = "solid_owner"
	KeptUnknownOwner gc.Reason = "unknown_owner"         // unknown never deletes
	KeptAbsenceYoung gc.Reason = "owner_not_found_once"  // of another API server: waits for the second NotFound
	KeptNoWitness    gc.Reason = "owner_without_witness" // of another API server: nothing proves that it answers truly
	KeptDisputed     gc.Reason = "live_read_differs"     // of another API server: a live read differs from its watch
	KeptUnresolvable gc.Reason = "unresolvable"          // cluster-scoped, with a namespaced owner
	KeptTerminating  gc.Reason = "terminating"           // already deleted; others hold it
	KeptDependents   gc.Reason = "waits_for_dependents"
	KeptJournal      gc.Reason = "waits_for_journal" // the journal of orphaned owners does not have it yet
	KeptSync         gc.Reason = "waits_for_types"   // some type has not been listed
	KeptExcluded     gc.Reason = "excluded"
	KeptUnserved     gc.Reason = "type_unserved"
	KeptInFlight     gc.Reason = "in_flight" // an action is on its way, or its effect not seen yet
	KeptRetry        gc.Reason = "retry"     // an action did not succeed; again later
	KeptSlowed       gc.Reason = "slowed"    // deletions of its root are asked for little by little
	KeptHeld         gc.Reason = "held"      // none are
	KeptNotKnown     gc.Reason = "not_known" // the graph has no such object
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
	// Recheck is how often an owner is read whose type no watch reports.
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
