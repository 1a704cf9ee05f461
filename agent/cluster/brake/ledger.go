package brake

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

const (
	// leastAhead and mostAhead bound what a text claims ahead: between them it is twice
	// what was spent of the last one. A crash costs that much of the limits.
	leastAhead, mostAhead = 128, 2048
	// wantedAfter is how often a text is wanted when half of its claim is spent; once
	// that is nearly all, it is wanted at once.
	wantedAfter = 500 * time.Millisecond
	// mostUnnamed is what a root may spend before a text names it.
	mostUnnamed = 512
	// mostKept bounds the roots in a text, which goes into an annotation: those that
	// have spent most.
	mostKept = 64
)

// ledger is how far ahead of what was kept the counts may be.
type ledger struct {
	keeps bool // texts are kept at all
	ahead int  // deletions that the last one claims
	spent int  // of those
	next  int  // what the one on its way claims, and spent when it was made
	was   int
	at    time.Time // it was made
	// unnamed says that a root that no text names has spent much.
	unnamed bool
}

// Keep says whether texts are kept. If not, a new process begins with nothing counted.
func (b *Brake) Keep(on bool) { b.ledger = ledger{keeps: on} }

func (l *ledger) exhausted() bool { return l.keeps && l.spent >= l.ahead }

// Wanted says whether a text should be made and kept now; Dirty whether one should be,
// some time.
func (b *Brake) Wanted(now time.Time) bool {
	l := &b.ledger
	return l.keeps && (4*l.spent >= 3*l.ahead || (l.unnamed || 2*l.spent >= l.ahead) && now.Sub(l.at) >= wantedAfter)
}

// Dirty says whether the last text is not what it should be.
func (b *Brake) Dirty() bool { return b.keeps && (b.spent > 0 || b.ahead != leastAhead) }

// First says whether the last deletion is the first one since a text was kept.
func (b *Brake) First() bool { return b.keeps && b.spent == 1 }

// Exhausted says whether nothing at all is let through until a text was kept.
func (b *Brake) Exhausted() bool { return b.exhausted() }

// text is the form in which counts are kept.
type text struct {
	At      time.Time  `json:"at"`
	Ahead   int        `json:"ahead,omitempty"`
	Window  [][2]int64 `json:"window,omitempty"` // milliseconds before At, and deletions
	Cascade []spent    `json:"cascades,omitempty"`
}

type spent struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Namespace  string  `json:"namespace,omitempty"`
	Name       string  `json:"name"`
	UID        string  `json:"uid"`
	Used       float64 `json:"used"`
	Total      int     `json:"total"`
}

// Record makes a text, which claims some deletions ahead unless it is the last one. Not
// more than that are let through before [Brake.Kept] says that it was kept.
func (b *Brake) Record(now time.Time, last bool) string {
	l := &b.ledger
	l.next, l.was = min(max(2*l.spent, leastAhead), mostAhead), l.spent
	if last {
		l.next = 0
	}
	l.at = now
	l.ahead = min(l.ahead, l.spent+l.next)
	t := text{At: now.UTC().Truncate(time.Millisecond), Ahead: l.next, Window: b.window.record(now)}
	for _, e := range slices.SortedFunc(maps.Values(b.envelopes), func(x, y *envelope) int {
		return cmp.Or(cmp.Compare(y.used, x.used), cmp.Compare(x.root.UID, y.root.UID))
	}) {
		e.onWay = true
		if e.spend(now, b.limits); e.used == 0 || len(t.Cascade) == mostKept {
			continue
		}
		r := e.root
		t.Cascade = append(t.Cascade, spent{r.APIVersion, r.Kind, r.Namespace, r.Name, r.UID, math.Ceil(e.used), e.total})
	}
	data, err := json.Marshal(t)
	if err != nil {
		return "" // nothing in it can fail
	}
	return string(data)
}

// Kept says that the last text was kept.
func (b *Brake) Kept() {
	b.ahead, b.spent = b.next, b.spent-b.was
	b.was, b.unnamed = 0, false
	for _, e := range b.envelopes {
		e.named = e.named || e.onWay
	}
}

// Recall takes over what another has counted, with what it may have done since: the
// claim is taken for spent, by all cascades together and by each one that is named. A
// clock that is behind the other's counts all as of now.
func (b *Brake) Recall(now time.Time, kept string) error {
	if kept == "" {
		return nil
	}
	var t text
	if err := json.Unmarshal([]byte(kept), &t); err != nil {
		return fmt.Errorf("read the counts that were kept: %w", err)
	}
	if t.At.After(now) {
		t.At = now
	}
	t.Ahead = min(max(t.Ahead, 0), mostAhead)
	for _, w := range t.Window {
		if w[0] >= 0 && w[1] > 0 && w[1] < math.MaxInt32 {
			b.window.add(now, t.At.Add(-time.Duration(w[0])*time.Millisecond), int(w[1]))
		}
	}
	b.window.add(now, now, t.Ahead)
	for _, s := range t.Cascade {
		if s.UID == "" || b.limits.Burst == 0 || s.Used < 0 || len(b.envelopes) >= mostKept {
			continue
		}
		e := b.envelope(t.At, gc.Coordinates{APIVersion: s.APIVersion, Kind: s.Kind, Namespace: s.Namespace, Name: s.Name, UID: s.UID})
		e.used, e.total = s.Used, max(s.Total, 0)
		e.spend(now, b.limits)
		e.used = min(e.used+float64(t.Ahead), max(e.used, float64(b.limits.Burst)))
	}
	return nil
}
