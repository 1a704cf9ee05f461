package gate

import (
	"cmp"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/breaker"
	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/events"
	"github.com/ebb-agent/ebb/policy/gc"
)

// Reasons for which the gate refuses an action. An admitted action has the result of its request
// instead.
const (
	Observed = "observed" // mode observe: only logged
	Paused   = "paused"
	Tripped  = "breaker_open"
	Slowed   = "slowed"  // its cascade has spent its envelope
	Unsaved  = "unsaved" // the deletion counts must be saved first
	Excluded = "excluded"
	Closed   = "closed" // the controller is ending, or leads no longer
	// Unrecorded: the finalizer orphan stays, because the journal does not have its
	// object.
	Unrecorded = "unrecorded"
	// Unconfirmed: etcd was restored, and no person has confirmed the state.
	Unconfirmed = "restored"
	Uncertain   = "unsure" // the API server was away: its etcd may have another history now
)

// Admit returns why an action is refused. It returns "" if the action is admitted: then the caller
// calls Finish at its end. The circuit breaker holds deletions only.
func (g *Gate) Admit(now time.Time, a gc.Action) (string, breaker.Grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	why := g.refusal(a)
	switch {
	case why != "":
		return why, breaker.Grant{}
	case !IsDeletion(a):
		g.inFlight++
		return "", breaker.Grant{}
	case g.tripped:
		return Tripped, breaker.Grant{}
	}
	taken := g.breaker.Acquire(now, a.Root)
	if g.breaker.SaveDue(now) || g.breaker.FirstUnsaved() {
		g.saver.notify()
	}
	switch taken.Verdict {
	case breaker.Exceeded:
		g.trip(now, a)
		return Tripped, breaker.Grant{}
	case breaker.Unsaved:
		return Unsaved, taken
	case breaker.Slowed:
		if taken.First {
			g.reportSlowed(a, taken)
		}
		return Slowed, taken
	}
	g.inFlight++
	return "", taken
}

// IsDeletion reports whether an action deletes. The circuit breaker counts only those.
func IsDeletion(a gc.Action) bool { return a.Verb == gc.Delete || a.Verb == gc.DeleteVolume }

// refusalNow is refusal, or refusalToEnd of what has begun, for callers that do not hold the lock.
func (g *Gate) refusalNow(a gc.Action, begun bool) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if begun {
		return g.refusalToEnd(a)
	}
	return g.refusal(a)
}

// refusal returns why an action is refused, whatever the counts are, or "" if it is not. The caller
// holds the lock.
func (g *Gate) refusal(a gc.Action) string {
	if g.closed {
		return Closed
	}
	return g.refusalToEnd(a)
}

// refusalToEnd is refusal for the rest of an action that has begun. A controller that ends finishes it in its
// time of grace, unless another one leads.
func (g *Gate) refusalToEnd(a gc.Action) string {
	switch {
	case g.leaseHeld != nil && !g.leaseHeld():
		return Closed
	// A finalizer is only removed from an object that was deleted.
	case a.Verb != gc.Record && a.Verb != gc.Withdraw && g.excluded(a.Object) && a.Verb != gc.RemoveFinalizer:
		return Excluded
	case a.Verb == gc.DeleteVolume && g.exclude[a.Owner.Namespace]: // the namespace of its claim
		return Excluded
	case g.awaits(a.Collector):
		return Unconfirmed
	case g.config.ModeOf(a.Collector) != config.Enforce:
		return Observed
	case g.halted(), cmp.Or(a.Collector, gc.Owners) == gc.Owners && g.journalUnread():
		return Paused
	case !g.sure():
		return Uncertain
	case a.Verb == gc.RemoveFinalizer && a.Finalizer == gc.OrphanFinalizer && !g.inJournal(a.Object.UID):
		return Unrecorded
	}
	return ""
}

func (g *Gate) excluded(o gc.Coordinates) bool {
	return o.Namespace != "" && g.exclude[o.Namespace] ||
		config.Patterns(g.config.Exclude.Types).Match(o.Resource, gc.GroupOf(o.APIVersion))
}

func (g *Gate) halted() bool {
	return g.loading || g.paused || g.config.Paused
}

// sure reports whether the watched state may be acted on.
func (g *Gate) sure() bool {
	sure, _ := g.api.Sure()
	return sure
}

// journalUnread reports whether it is not known yet which owners were orphaned: then the collector of
// owners could delete an orphan. In mode enforce, this process must also have taken the journal over.
func (g *Gate) journalUnread() bool {
	mode := g.config.ModeOf(gc.Owners)
	return mode != config.Off && !g.journalOwned && (mode == config.Enforce || !g.journalRead)
}

// Open reports whether the gate would admit anything. Callers do not request actions while it would
// not.
func (g *Gate) Open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.closed && !g.halted()
}

// OwnersWait reports whether the collector of owners waits for the journal of orphaned owners.
func (g *Gate) OwnersWait() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.journalUnread()
}

// Muted reports whether even the creation of an event is refused. Events of the circuit breaker and
// of envelopes belong to all collectors, the others to the collector of owners.
func (g *Gate) Muted(reason string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	ofAll := reason == events.Tripped || reason == events.Slowed
	return g.closed || g.halted() || g.config.Mode == config.Observe || !ofAll && (g.journalUnread() || g.config.ModeOf(gc.Owners) != config.Enforce)
}

// Status describes, for people, what stops everything and what waits for a person.
func (g *Gate) Status() string {
	words := g.Halts()
	if waiting := g.AwaitingConfirmation(); waiting != "" {
		words = append(words, "etcd was restored: "+waiting+" wait for ebb control confirm-restore")
	}
	return strings.Join(words, ", ")
}

// Halts returns, in words for people, why nothing is sent, or why no deletions are.
func (g *Gate) Halts() (words []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range []struct {
		is   bool
		word string
	}{
		{g.config.Mode == config.Observe, "observe: nothing is changed until mode is enforce"}, {g.paused, "paused by hand"},
		{g.config.Paused, "paused by configuration"}, {g.tripped, "circuit breaker open: too many deletions"},
		{g.loading, "reading what the previous leader left"}, {g.journalUnread(), "owners wait: reading the journal of orphaned owners"}, {g.closed, "ending"}, {!g.sure(), "the API server was away: nothing is sent until each type has caught up"},
		{g.breaker.Exhausted() && !g.loading && !g.closed, "deletions wait until their number is saved"},
	} {
		if s.is {
			words = append(words, s.word)
		}
	}
	return words
}
