package brake

import (
	"cmp"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Limits are how many deletions are let through. Zero Deletions or Burst: any number.
type Limits struct {
	Deletions int // of all cascades together, within Window
	Window    time.Duration
	Burst     int // of one cascade, at once
	PerMinute int // and from then on
}

// Verdict says whether a deletion may be sent.
type Verdict uint8

// The verdicts.
const (
	Pass   Verdict = iota
	Slowed         // its cascade has spent its envelope: see Answer.Until
	Unkept         // the counts are to be kept first: see Brake.Record
	Full           // too many deletions of all cascades
)

// Answer is the verdict on a deletion.
type Answer struct {
	Verdict
	// Until is when a cascade that does not pass may go on, by Most, and by as many again
	// after as long again.
	Until time.Time
	Most  int
	First bool // that it is slowed is new
	slice int64
	root  string
}

// Brake counts deletions.
type Brake struct {
	limits    Limits
	window    window
	envelopes map[string]*envelope
	ledger
}

// envelope is the bucket of one root.
type envelope struct {
	root   gc.Coordinates
	used   float64 // of the burst; flows off at the slope
	at     time.Time
	total  int // deletions since the bucket was last full
	slowed bool
	named  bool // in the text that is kept, or in none because those have spent more
	onWay  bool // in the one that is being kept
}

const (
	// mostEnvelopes bounds the roots that are remembered. One that is idle is forgotten
	// once its bucket is full again, which for a small cascade takes a moment.
	mostEnvelopes = 4096
	// unkeptPause is for a cascade that waits for a text to name it. That takes one write.
	unkeptPause = 25 * time.Millisecond
	// tick is how often a cascade that is slowed goes on.
	tick = time.Second
)

// Set takes other limits. What was counted counts.
func (b *Brake) Set(l Limits) {
	b.limits = l
	b.window.set(l.Deletions, l.Window)
	if l.Burst == 0 {
		b.envelopes = nil
	}
}

// Reset begins anew.
func (b *Brake) Reset() {
	b.window.reset()
	b.envelopes = nil
}

// Left is how many more deletions the window allows; ok is false if it has no limit.
func (b *Brake) Left(now time.Time) (n int, ok bool) {
	if b.limits.Deletions == 0 {
		return 0, false
	}
	return b.window.left(now), true
}

func (l Limits) slope() float64 { return float64(l.PerMinute) / 60 }

// spend lets go of what has flown off.
func (e *envelope) spend(now time.Time, l Limits) {
	if d := now.Sub(e.at); d > 0 {
		e.used = max(0, e.used-d.Seconds()*l.slope())
	}
	e.at = now
	if e.used == 0 {
		e.total = 0
	}
	if e.used < 0.9*float64(l.Burst) {
		e.slowed = false
	}
}

func (b *Brake) envelope(now time.Time, root gc.Coordinates) *envelope {
	e := b.envelopes[root.UID]
	if e == nil {
		b.makeRoom(now)
		e = &envelope{root: root, at: now}
		b.envelopes[root.UID] = e
	}
	e.spend(now, b.limits)
	return e
}

// makeRoom forgets the envelopes that are nearly full, when there are too many.
func (b *Brake) makeRoom(now time.Time) {
	if b.envelopes == nil {
		b.envelopes = make(map[string]*envelope)
	}
	if len(b.envelopes) < mostEnvelopes {
		return
	}
	for least := 1e-9; len(b.envelopes) > mostEnvelopes/2; least = max(1, 2*least) {
		for id, e := range b.envelopes {
			if e.spend(now, b.limits); e.used < least {
				delete(b.envelopes, id)
			}
		}
	}
}

// Take counts a deletion, if it may be sent.
func (b *Brake) Take(now time.Time, root gc.Coordinates) Answer {
	var e *envelope
	if b.limits.Burst > 0 {
		e = b.envelope(now, root)
		if over := e.used + 1 - float64(b.limits.Burst); over > 0 {
			return b.slow(now, e, over)
		}
	}
	if b.exhausted() || e != nil && b.keeps && !e.named && e.total >= mostUnnamed {
		return Answer{Verdict: Unkept, Until: now.Add(unkeptPause), Most: mostAhead}
	}
	if !b.window.take(now) {
		return Answer{Verdict: Full}
	}
	if e != nil {
		e.used++
		if e.total++; !e.named && e.total >= mostUnnamed/2 {
			b.unnamed = true
		}
	}
	b.spent++
	return Answer{slice: b.window.last, root: root.UID}
}

// slow says when a cascade goes on: not for each deletion, but for as many as flow off
// within a tick.
func (b *Brake) slow(now time.Time, e *envelope, over float64) Answer {
	slope := b.limits.slope()
	pause := max(over/slope, tick.Seconds())
	a := Answer{Verdict: Slowed, Until: now.Add(time.Duration(pause * float64(time.Second))), Most: max(1, int(pause*slope)), First: !e.slowed}
	e.slowed = true
	return a
}

// Give takes back a deletion that was counted, and of which the API server said that it
// was not carried out.
func (b *Brake) Give(a Answer) {
	if a.Verdict != Pass {
		return
	}
	b.window.give(a.slice)
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
func (b *Brake) Cascades(now time.Time, most int) []Cascade {
	list := make([]Cascade, 0, len(b.envelopes))
	for id, e := range b.envelopes {
		if e.spend(now, b.limits); e.used == 0 {
			delete(b.envelopes, id)
			continue
		}
		list = append(list, Cascade{e.root, e.total, max(0, b.limits.Burst-int(e.used+0.999)), e.slowed})
	}
	slices.SortFunc(list, func(x, y Cascade) int {
		return cmp.Or(cmp.Compare(y.Deletions, x.Deletions), cmp.Compare(x.Root.UID, y.Root.UID))
	})
	return slices.Clip(list[:min(most, len(list))])
}
