package breaker

import (
	"cmp"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Limits are how many deletions are admitted. Zero Deletions: any number.
//
// Collectors, and the cascades of what they delete, hold themselves at half of the window. So a backlog of
// theirs neither opens the circuit breaker nor leaves nothing to the cascades of what people delete.
type Limits struct {
	Deletions int // of all roots together, within Window
	Window    time.Duration
	Cascade   Rate // of one root that is an object
	Collector Rate // of one root that is a collector
}

// Rate bounds the deletions of one root. Zero Burst: any number.
type Rate struct {
	Burst     int // at once
	PerMinute int // and from then on
}

// Verdict says whether a deletion may be sent.
type Verdict uint8

// The verdicts.
const (
	Pass     Verdict = iota
	Slowed           // its cascade has spent its envelope: see Answer.Until
	Unsaved          // the counts are to be kept first: see Breaker.Snapshot
	Exceeded         // too many deletions of all cascades
)

// Answer is the verdict on a deletion.
type Grant struct {
	Verdict
	// RetryAt is when a cascade that does not pass may send the next Batch of deletions;
	// another one may follow after the same time.
	RetryAt time.Time
	Batch   int
	First   bool // that it is slowed is new
	slice   int64
	root    string
}

// Breaker counts deletions.
type Breaker struct {
	limits    Limits
	window    window
	envelopes map[string]*envelope
	reservation
}

// envelope is the token bucket of one root.
type envelope struct {
	root   gc.Coordinates
	used   float64 // of the burst; flows off at the slope
	at     time.Time
	total  int // deletions since the bucket was last full
	slowed bool
	saved  bool // in the text that is kept, or in none because those have spent more
	saving bool // in the one that is being kept
}

const (
	// maxEnvelopes bounds the roots that are remembered. An idle root is forgotten once its
	// bucket is full again, which takes a moment for a small cascade.
	maxEnvelopes = 4096
	// unsavedPause is for a cascade that waits for a snapshot to name it. That takes one
	// write.
	unsavedPause = 25 * time.Millisecond
	// tick is how often a cascade that is slowed goes on.
	tick = time.Second
)

// Set takes other limits. What was counted counts.
func (b *Breaker) Set(l Limits) {
	b.limits = l
	b.window.set(l.Deletions, l.Window)
	for id, e := range b.envelopes {
		if l.of(e.root).Burst == 0 {
			delete(b.envelopes, id)
		}
	}
}

// Reset begins anew.
func (b *Breaker) Reset() {
	b.window.reset()
	b.envelopes = nil
}

// Left is how many more deletions the window allows; ok is false if it has no limit.
func (b *Breaker) Left(now time.Time) (n int, ok bool) {
	if b.limits.Deletions == 0 {
		return 0, false
	}
	return b.window.left(now), true
}

// of a root.
func (l Limits) of(root gc.Coordinates) Rate {
	if root.IsCollector() {
		return l.Collector
	}
	return l.Cascade
}

func (r Rate) perSecond() float64 { return float64(r.PerMinute) / 60 }

// drain refills the bucket for the time that has passed.
func (e *envelope) drain(now time.Time, l Limits) {
	r := l.of(e.root)
	if d := now.Sub(e.at); d > 0 {
		e.used = max(0, e.used-d.Seconds()*r.perSecond())
	}
	e.at = now
	if e.used == 0 {
		e.total = 0
	}
	if e.used < 0.9*float64(r.Burst) {
		e.slowed = false
	}
}

func (b *Breaker) envelope(now time.Time, root gc.Coordinates) *envelope {
	e := b.envelopes[root.UID]
	if e == nil {
		b.evict(now)
		e = &envelope{root: root, at: now}
		b.envelopes[root.UID] = e
	}
	e.drain(now, b.limits)
	return e
}

// evict forgets the envelopes that are nearly full, when there are too many.
func (b *Breaker) evict(now time.Time) {
	if b.envelopes == nil {
		b.envelopes = make(map[string]*envelope)
	}
	if len(b.envelopes) < maxEnvelopes {
		return
	}
	for least := 1e-9; len(b.envelopes) > maxEnvelopes/2; least = max(1, 2*least) {
		for id, e := range b.envelopes {
			if e.drain(now, b.limits); e.used < least {
				delete(b.envelopes, id)
			}
		}
	}
}

// Acquire counts a deletion, if it may be sent.
func (b *Breaker) Acquire(now time.Time, root gc.Coordinates) Grant {
	var e *envelope
	if rate := b.limits.of(root); rate.Burst > 0 {
		e = b.envelope(now, root)
		if over := e.used + 1 - float64(rate.Burst); over > 0 {
			return b.retryLater(now, e, over)
		}
	}
	if root.IsCollector() && b.window.most > 0 && b.window.left(now) <= b.window.most/2 {
		return b.afterSlice(now, e)
	}
	if b.exhausted() || e != nil && b.enabled && !e.saved && e.total >= maxUnsaved {
		return Grant{Verdict: Unsaved, RetryAt: now.Add(unsavedPause), Batch: maxReserved}
	}
	if !b.window.acquire(now) {
		return Grant{Verdict: Exceeded}
	}
	if e != nil {
		e.used++
		if e.total++; !e.saved && e.total >= maxUnsaved/2 {
			b.saveSoon = true
		}
	}
	b.used++
	return Grant{slice: b.window.last, root: root.UID}
}

// retryLater says when a cascade goes on: not for each deletion, but for as many as the
// bucket gains within a tick.
func (b *Breaker) retryLater(now time.Time, e *envelope, over float64) Grant {
	perSecond := b.limits.of(e.root).perSecond()
	pause := max(over/perSecond, tick.Seconds())
	a := Grant{Verdict: Slowed, RetryAt: now.Add(time.Duration(pause * float64(time.Second))), Batch: max(1, int(pause*perSecond)), First: !e.slowed}
	e.slowed = true
	return a
}

// afterSlice says when a collector goes on that has found half of the window used: when the oldest slice
// has left it, with as many deletions as fit one.
func (b *Breaker) afterSlice(now time.Time, e *envelope) Grant {
	a := Grant{Verdict: Slowed, RetryAt: now.Add(b.window.width), Batch: max(1, b.window.most/2/windowSlices), First: e != nil && !e.slowed}
	if e != nil {
		e.slowed = true
	}
	return a
}

// Return takes back a counted deletion that the API server did not carry out.
func (b *Breaker) Return(a Grant) {
	if a.Verdict != Pass {
		return
	}
	b.window.release(a.slice)
	if e := b.envelopes[a.root]; e != nil {
		e.used, e.total = max(0, e.used-1), max(0, e.total-1)
	}
}

// Cascade is what one root's cascade has spent.
type Cascade struct {
	Root      gc.Coordinates
	Deletions int // since its envelope was last full
	Left      int // of the burst
	Slowed    bool
}

// Cascades are the roots that have spent most, most first.
func (b *Breaker) Cascades(now time.Time, most int) []Cascade {
	list := make([]Cascade, 0, len(b.envelopes))
	for id, e := range b.envelopes {
		if e.drain(now, b.limits); e.used == 0 {
			delete(b.envelopes, id)
			continue
		}
		list = append(list, Cascade{e.root, e.total, max(0, b.limits.of(e.root).Burst-int(e.used+0.999)), e.slowed})
	}
	slices.SortFunc(list, func(x, y Cascade) int {
		return cmp.Or(cmp.Compare(y.Deletions, x.Deletions), cmp.Compare(x.Root.UID, y.Root.UID))
	})
	return slices.Clip(list[:min(most, len(list))])
}
