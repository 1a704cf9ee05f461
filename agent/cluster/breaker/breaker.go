package breaker

import (
	"cmp"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Limits bound how many deletions are admitted. Zero Deletions means no limit.
//
// Collectors, and the cascades of what they delete, are slowed once half of the window is used. So
// their backlog neither opens the circuit breaker nor leaves no deletions for the cascades of what
// users delete.
type Limits struct {
	Deletions int // of all roots together, within Window
	Window    time.Duration
	Cascade   Rate // of one root that is an object
	Collector Rate // of one root that is a collector
}

// Rate bounds the deletions of one root. Zero Burst means no limit.
type Rate struct {
	Burst     int // at once
	PerMinute int // refill rate after the burst
}

// Verdict is whether a deletion may be sent.
type Verdict uint8

// The verdicts.
const (
	Pass     Verdict = iota
	Slowed           // envelope spent, or a collector at half of the window: see Grant.RetryAt
	Unsaved          // the counts must be saved first: see Breaker.Snapshot
	Exceeded         // too many deletions of all roots within the window
)

// Grant is the verdict on a deletion.
type Grant struct {
	Verdict
	// RetryAt is when a cascade that does not pass may send its next Batch of deletions. It may
	// send another batch after each further interval of that length.
	RetryAt time.Time
	Batch   int
	First   bool // the root was not slowed before
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
	used   float64 // of the burst; falls by Rate.PerMinute
	at     time.Time
	total  int  // deletions since the bucket was last full
	slowed bool // by its rate
	held   bool // at half of the window
	saved  bool // a saved snapshot names the root, or has only roots that have spent more
	saving bool // the same of the snapshot that is being saved
}

const (
	// maxEnvelopes bounds the roots that are remembered. An idle root is forgotten once its
	// bucket is full again, which takes a moment for a small cascade.
	maxEnvelopes = 4096
	// unsavedPause is the pause of a cascade that waits until a snapshot names its root. That takes
	// one write.
	unsavedPause = 25 * time.Millisecond
	// tick is the least pause between two batches of a slowed cascade.
	tick = time.Second
)

// Set replaces the limits. Deletions that were counted before still count.
func (b *Breaker) Set(l Limits) {
	b.limits = l
	b.window.set(l.Deletions, l.Window)
	for id, e := range b.envelopes {
		if l.of(e.root).Burst == 0 {
			delete(b.envelopes, id)
		}
	}
}

// Reset sets all counts to zero.
func (b *Breaker) Reset() {
	b.window.reset()
	b.envelopes = nil
}

// of returns the rate of a root.
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

// evict forgets envelopes when there are too many, those with the fewest used deletions first.
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
	if root.IsCollector() && b.window.most > 0 {
		left := b.window.left(now)
		if left <= b.window.most/2 {
			return b.afterSlice(now, e)
		}
		if e != nil && left > b.window.most*3/4 {
			e.held = false
		}
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

// retryLater returns when a slowed cascade may continue. It may not continue for each single
// deletion, but with as many as the bucket gains in the pause.
func (b *Breaker) retryLater(now time.Time, e *envelope, over float64) Grant {
	perSecond := b.limits.of(e.root).perSecond()
	pause := max(over/perSecond, tick.Seconds())
	a := Grant{Verdict: Slowed, RetryAt: now.Add(time.Duration(pause * float64(time.Second))), Batch: max(1, int(pause*perSecond)), First: !e.slowed}
	e.slowed = true
	return a
}

// afterSlice returns when a collector may continue that has found half of the window used. That is
// when the oldest slice has left the window. It may then send as many deletions as fit one slice.
func (b *Breaker) afterSlice(now time.Time, e *envelope) Grant {
	a := Grant{Verdict: Slowed, RetryAt: now.Add(b.window.width), Batch: max(1, b.window.most/2/windowSlices), First: e != nil && !e.held}
	if e != nil {
		e.held = true
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

// Cascades returns the roots that have spent most, most first.
func (b *Breaker) Cascades(now time.Time, most int) []Cascade {
	list := make([]Cascade, 0, len(b.envelopes))
	for id, e := range b.envelopes {
		if e.drain(now, b.limits); e.used == 0 {
			delete(b.envelopes, id)
			continue
		}
		list = append(list, Cascade{e.root, e.total, max(0, b.limits.of(e.root).Burst-int(e.used+0.999)), e.slowed || e.held})
	}
	slices.SortFunc(list, func(x, y Cascade) int {
		return cmp.Or(cmp.Compare(y.Deletions, x.Deletions), cmp.Compare(x.Root.UID, y.Root.UID))
	})
	return slices.Clip(list[:min(most, len(list))])
}
