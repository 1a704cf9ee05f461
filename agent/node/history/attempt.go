package history

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/node/page"
)

// Attempt is a removal, from its beginning to its outcome. The first outcome counts. A nil Attempt
// ignores them all.
type Attempt struct {
	h     *History
	entry page.HistoryEntry
	key   uint64 // in the file; 0: not in the file
	at    bucket // its bucket in the file
	waits bool   // it is queued to be written
	round *round // the write that includes it, or last did
	over  bool   // it has an outcome, or its outcome is unknown
	drop  bool   // it gets no entry
	why   string // why its outcome is unknown
}

// Freed is what a removal has freed, as measured.
type Freed struct {
	Bytes, Inodes uint64
	With          int // other removals that were measured together with it
}

// Begin appends removals that are about to be tried, and returns at once. The caller sets Kind, ID
// and what is known of the thing; Begin sets the times and the outcome.
func (h *History) Begin(entries ...page.HistoryEntry) []*Attempt {
	attempts := make([]*Attempt, len(entries))
	now, wall := h.o.Now(), h.o.Wall()
	h.mu.Lock()
	defer h.mu.Unlock()
	for n, e := range entries {
		e.Time, e.Wall = now, wall
		e.Outcome = page.OutcomeBegun
		attempts[n] = &Attempt{h: h, entry: e}
		h.enqueue(attempts[n])
	}
	return attempts
}

// Removed records that the thing is gone; freed is nil if that was not measured.
func (a *Attempt) Removed(freed *Freed) {
	a.settle(func(e *page.HistoryEntry) {
		e.Outcome = page.OutcomeRemoved
		if freed != nil {
			bytes, inodes := freed.Bytes, freed.Inodes
			e.FreedBytes, e.FreedInodes, e.MeasuredWith = &bytes, &inodes, freed.With
		}
	})
}

// PutBack records that the thing stays although its removal had begun.
func (a *Attempt) PutBack(why string) {
	a.settle(func(e *page.HistoryEntry) { e.Outcome, e.Reason = page.OutcomePutBack, why })
}

// Stays records why the thing was not touched.
func (a *Attempt) Stays(why string) {
	a.settle(func(e *page.HistoryEntry) { e.Outcome, e.Reason = page.OutcomeRefused, why })
}

// Failed records that the removal failed.
func (a *Attempt) Failed(err error) {
	a.settle(func(e *page.HistoryEntry) {
		e.Outcome, e.Reason, e.Error = page.OutcomeFailed, "removal failed", err.Error()
	})
}

// Cancel drops the entry: the removal was not tried after all, or another actor removed the thing.
func (a *Attempt) Cancel() {
	if a != nil {
		a.settle(func(*page.HistoryEntry) { a.drop = true })
	}
}

// Unknown records that nothing shows yet whether the removal happened: the next list decides. Why
// is the reason; without one, a thing that still exists gets no entry.
func (a *Attempt) Unknown(why string) {
	if a == nil {
		return
	}
	a.h.mu.Lock()
	defer a.h.mu.Unlock()
	if !a.over {
		a.over, a.why = true, why
		a.h.left = append(a.h.left, a)
	}
}

func (a *Attempt) settle(change func(e *page.HistoryEntry)) {
	if a == nil {
		return
	}
	now := a.h.o.Now()
	a.h.mu.Lock()
	defer a.h.mu.Unlock()
	if a.over {
		return
	}
	a.over, a.entry.Ended = true, &now
	change(&a.entry)
	if a.entry.Outcome == page.OutcomeRemoved { // so it was there, after all earlier attempts
		a.h.decide(now, func(e *page.HistoryEntry) (mine, there bool) {
			return itemOf(e) == itemOf(&a.entry), true
		})
	}
	if !a.drop {
		a.drop = a.h.repeats(&a.entry)
	}
	a.h.enqueue(a)
}

// Refused appends a refusal: something that stays, or something that keeps the agent from removing
// anything. It appends nothing if the same refusal of the same thing was noted within repeatWithin.
// The outcome is refused if the entry has none.
func (h *History) Refused(e page.HistoryEntry) {
	now := h.o.Now()
	e.Time, e.Wall, e.Ended = now, h.o.Wall(), &now
	e.Outcome = cmp.Or(e.Outcome, page.OutcomeRefused)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.repeats(&e) {
		h.enqueue(&Attempt{h: h, entry: e, over: true})
	}
}

// Noted appends a removal that was not the agent's: it happened without the agent, or the agent
// would have made it. The caller sets the outcome.
func (h *History) Noted(e page.HistoryEntry) {
	now := h.o.Now()
	e.Time, e.Wall, e.Ended = now, h.o.Wall(), &now
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enqueue(&Attempt{h: h, entry: e, over: true})
}

// refusal is the text of a refusal, and when it was last noted.
type refusal struct {
	what string
	at   time.Time
}

// repeats reports whether the same refusal of the same thing was noted within repeatWithin; it
// notes this one. Its caller holds mu.
func (h *History) repeats(e *page.HistoryEntry) bool {
	thing := strings.Join(append([]string{e.Kind, e.ID}, e.Names...), " ")
	if e.Outcome == page.OutcomeRemoved {
		delete(h.refusals, thing)
		return false
	}
	what, last := strings.Join([]string{e.Outcome, e.Reason, e.Error}, " "), h.refusals[thing]
	if ago := e.Ended.Sub(last.at); last.what == what && ago >= 0 && ago < repeatWithin {
		return true
	}
	if len(h.refusals) >= refusalsMost {
		clear(h.refusals)
	}
	h.refusals[thing] = refusal{what, *e.Ended}
	return false
}

// Listed gives an outcome to the attempts of these kinds that have none, by what exists now. The
// list must have been requested after they were begun. Listed returns those that have happened.
func (h *History) Listed(there func(id string) bool, kinds ...string) (removed []page.HistoryEntry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.decide(h.o.Now(), func(e *page.HistoryEntry) (mine, here bool) { return slices.Contains(kinds, e.Kind), there(e.ID) })
}

// decide gives an outcome to the attempts without one that are mine, and returns those that have happened. Its caller
// holds mu.
func (h *History) decide(now time.Time, is func(e *page.HistoryEntry) (mine, there bool)) (removed []page.HistoryEntry) {
	latest := h.latest()
	h.left = slices.DeleteFunc(h.left, func(a *Attempt) bool {
		e := &a.entry
		mine, there := is(e)
		if !mine {
			return false
		}
		there = there || latest[itemOf(e)] != a // a later try has found it
		e.Ended = &now
		switch {
		case there && a.why == "":
			a.drop = true
		case there:
			e.Outcome, e.Reason = page.OutcomePutBack, a.why
		default:
			e.Outcome, e.Error = page.OutcomeRemoved, "what it freed was not measured: "+cmp.Or(a.why, "its removal failed")
			removed = append(removed, *e)
		}
		h.enqueue(a)
		return true
	})
	return removed
}

// item identifies a thing whose removal is tried.
type item struct{ kind, id string }

func itemOf(e *page.HistoryEntry) item { return item{e.Kind, e.ID} }

// latest returns the latest attempt without an outcome for each thing. Its caller holds mu.
func (h *History) latest() map[item]*Attempt {
	latest := make(map[item]*Attempt, len(h.left))
	for _, a := range h.left {
		latest[itemOf(&a.entry)] = a
	}
	return latest
}

// InDoubt returns when removals of a kind were begun whose outcome is not known, once for each thing: it is taken to have
// gone once. InDoubt leaves out entries for which counts returns false. The times are in no order.
func (h *History) InDoubt(kind string, counts func(page.HistoryEntry) bool) (begun []time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t, a := range h.latest() {
		if t.kind == kind && counts(a.entry) {
			begun = append(begun, a.entry.Time)
		}
	}
	return begun
}

// record returns the attempt as the file should have it. Its caller holds mu.
func (a *Attempt) record() record {
	r := record{key: a.key, was: a.at, is: begun}
	if a.drop {
		r.is = nowhere
		return r
	}
	switch a.entry.Outcome {
	case page.OutcomeBegun:
	case page.OutcomeRemoved, page.OutcomeWould, page.OutcomeOthers:
		r.is = removals
	default:
		r.is = refusals
	}
	r.value = encode(a.entry)
	return r
}
