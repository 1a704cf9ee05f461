package cascade

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Reasons of actions.
const (
	OwnersAbsent    gc.Reason = "owners_absent"    // no owner exists any more
	OwnersWaiting   gc.Reason = "owners_waiting"   // all owners left wait for their dependents' deletion
	ReferencesStale gc.Reason = "references_stale" // a solid owner remains, the others are absent or waiting
	OwnerOrphans    gc.Reason = "owner_orphans"    // the owner is deleted and orphans its dependents
	CircleOfOwners  gc.Reason = "circle_of_owners" // owners wait for each other
	DependentsGone  gc.Reason = "dependents_gone"  // no dependent holds the finalizer any more
	TypesGivenUp    gc.Reason = "types_given_up"   // the same, but some types could not be listed: warn
	OwnerUnverified gc.Reason = "owner_unverified" // neither presence nor absence of the owner is proven
	OwnerMayChange  gc.Reason = "owner_may_change" // the owner waits, which is not permanent
	// ObjectMayChange: the object was changed, the effect of an action was not seen, or the
	// type is aggregated.
	ObjectMayChange gc.Reason = "object_may_change"
	// WitnessWanted: another object of the type was not found. This read tests whether the
	// server answers truly.
	WitnessWanted   gc.Reason = "witness_wanted"
	OrphaningBegins gc.Reason = "orphaning_begins" // the owner is deleted with policy Orphan
	// OrphaningCalledOff: the owner exists, and its dependents are not to be orphaned any
	// more.
	OrphaningCalledOff gc.Reason = "orphaning_called_off"
	InvalidNamespace   gc.Reason = "invalid_namespace" // the owner was seen in another namespace
	// ChangesTooOften: the object changed between each read and the request. Retries
	// continue, with growing pauses.
	ChangesTooOften gc.Reason = "changes_too_often"
	// HeldByExcluded: only excluded objects still hold a deleted owner. [Collector.Holding]
	// lists them.
	HeldByExcluded gc.Reason = "held_by_excluded"
)

// Reasons to keep an object.
const (
	KeptNoOwners     gc.Reason = "no_owners"
	KeptSolidOwner   gc.Reason = "solid_owner"
	KeptUnknownOwner gc.Reason = "unknown_owner"         // an unknown owner never causes a deletion
	KeptAbsenceYoung gc.Reason = "owner_not_found_once"  // aggregated type: waits for the second NotFound
	KeptNoWitness    gc.Reason = "owner_without_witness" // aggregated type: the NotFound had no witness
	KeptDisputed     gc.Reason = "live_read_differs"     // aggregated type: live read and watch differ
	KeptUnresolvable gc.Reason = "unresolvable"          // cluster-scoped, with a namespaced owner
	KeptTerminating  gc.Reason = "terminating"           // already deleted; other components hold it
	KeptDependents   gc.Reason = "waits_for_dependents"
	KeptJournal      gc.Reason = "waits_for_journal" // the journal of orphaned owners does not have it yet
	KeptSync         gc.Reason = "waits_for_types"   // some type has not been listed
	KeptExcluded     gc.Reason = "excluded"
	KeptUnserved     gc.Reason = "type_unserved"
	KeptInFlight     gc.Reason = "in_flight" // an action is in flight, or its effect not seen yet
	KeptRetry        gc.Reason = "retry"     // an action failed; it is retried later
	KeptSlowed       gc.Reason = "slowed"    // deletions of its root are rate-limited
	KeptHeld         gc.Reason = "held"      // all deletions are on hold
	KeptNotKnown     gc.Reason = "not_known" // the graph has no such object
)

// KeepOrphaned is the default of Config.KeepOrphaned.
const KeepOrphaned = 24 * time.Hour

// Config has the times the rules need. Zero fields mean the defaults.
type Config struct {
	// FreshFor is the maximum age of a live read that an action rests on. Default 1s.
	FreshFor time.Duration
	// ForegroundPatience is how long a type that is not listed blocks the completion of
	// foreground deletions. Default 1m.
	ForegroundPatience time.Duration
	// Settle is how long the effect of a successful action may take to be seen,
	// before the object is read live. Default 30s.
	Settle time.Duration
	// AbsenceAfter is the minimum time between the two NotFounds that prove the absence of
	// an owner of another API server. Default 2m.
	AbsenceAfter time.Duration
	// TrustAggregated trusts other API servers at once, without quarantine. It is for
	// simulations, in which every answer is true and time does not advance.
	TrustAggregated bool
	// Recheck is the interval between live reads of an owner whose type has no watch.
	// Default 1m.
	Recheck time.Duration
	// RetryMin and RetryMax bound the pause after a failure, which doubles from
	// one to the other. Defaults 250ms, 5m.
	RetryMin, RetryMax time.Duration
	// KeepOrphaned is the minimum time that an orphaned owner stays in the journal. Default
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
