package breaker

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
	// minReserved and maxReserved bound what a snapshot reserves ahead. Between them, it reserves
	// twice what was used of the last reservation. A crash costs that much of the limits.
	minReserved, maxReserved = 128, 2048
	// saveInterval is how often a snapshot is due once half of its reservation is used. Once three
	// quarters are used, a snapshot is due at once.
	saveInterval = 500 * time.Millisecond
	// maxUnsaved is what a root may spend before a snapshot names it.
	maxUnsaved = 512
	// maxSavedRoots bounds the roots in a snapshot, which is stored in an annotation. It has the
	// roots that have spent most.
	maxSavedRoots = 64
)

// reservation is how far the real counts may be ahead of the saved ones.
type reservation struct {
	enabled      bool      // snapshots are saved
	reserved     int       // deletions that the saved snapshot reserves
	used         int       // of reserved
	nextReserved int       // reserved by the snapshot that is being saved
	usedAtSave   int       // used when that snapshot was made
	savedAt      time.Time // when the last snapshot was made
	// saveSoon: a root that no saved snapshot names has spent half of maxUnsaved.
	saveSoon bool
}

// Persist sets whether snapshots are saved. If not, a new process begins at zero.
func (b *Breaker) Persist(on bool) { b.reservation = reservation{enabled: on} }

func (l *reservation) exhausted() bool { return l.enabled && l.used >= l.reserved }

// SaveDue reports whether a snapshot should be saved now, and [Breaker.Dirty] whether one should be
// saved at some time.
func (b *Breaker) SaveDue(now time.Time) bool {
	l := &b.reservation
	return l.enabled && (4*l.used >= 3*l.reserved || (l.saveSoon || 2*l.used >= l.reserved) && now.Sub(l.savedAt) >= saveInterval)
}

// Dirty reports whether the saved snapshot lacks deletions, or reserves another number than
// minReserved.
func (b *Breaker) Dirty() bool { return b.enabled && (b.used > 0 || b.reserved != minReserved) }

// FirstUnsaved reports whether the last deletion is the first one since a save.
func (b *Breaker) FirstUnsaved() bool { return b.enabled && b.used == 1 }

// Exhausted reports whether nothing is admitted until a snapshot is saved.
func (b *Breaker) Exhausted() bool { return b.exhausted() }

// snapshot is the form in which counts are saved.
type snapshot struct {
	At      time.Time      `json:"at"`
	Ahead   int            `json:"ahead,omitempty"`
	Window  [][2]int64     `json:"window,omitempty"` // milliseconds before At, and deletions
	Cascade []rootSnapshot `json:"cascades,omitempty"`
}

type rootSnapshot struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Namespace  string  `json:"namespace,omitempty"`
	Name       string  `json:"name"`
	UID        string  `json:"uid"`
	Used       float64 `json:"used"`
	Total      int     `json:"total"`
}

// Snapshot encodes the counts. It reserves some deletions ahead unless it is the last one.
// No more than these are admitted before [Breaker.Saved] is called.
func (b *Breaker) Snapshot(now time.Time, last bool) string {
	l := &b.reservation
	l.nextReserved, l.usedAtSave = min(max(2*l.used, minReserved), maxReserved), l.used
	if last {
		l.nextReserved = 0
	}
	l.savedAt = now
	l.reserved = min(l.reserved, l.used+l.nextReserved)
	t := snapshot{At: now.UTC().Truncate(time.Millisecond), Ahead: l.nextReserved, Window: b.window.snapshot(now)}
	for _, e := range slices.SortedFunc(maps.Values(b.envelopes), func(x, y *envelope) int {
		return cmp.Or(cmp.Compare(y.used, x.used), cmp.Compare(x.root.UID, y.root.UID))
	}) {
		e.saving = true
		if e.drain(now, b.limits); e.used == 0 || len(t.Cascade) == maxSavedRoots {
			continue
		}
		r := e.root
		t.Cascade = append(t.Cascade, rootSnapshot{r.APIVersion, r.Kind, r.Namespace, r.Name, r.UID, math.Ceil(e.used), e.total})
	}
	data, err := json.Marshal(t)
	if err != nil {
		return "" // cannot happen: every field can be encoded
	}
	return string(data)
}

// Saved notes that the last snapshot was saved.
func (b *Breaker) Saved() {
	b.reserved, b.used = b.nextReserved, b.used-b.usedAtSave
	b.usedAtSave, b.saveSoon = 0, false
	for _, e := range b.envelopes {
		e.saved = e.saved || e.saving
	}
}

// Restore takes over the counts that another process saved, and what that process may have deleted
// since. Its reservation counts as used, in the window and in the envelope of each root that is
// named. If this clock is behind the other's, all counts as of now. Restore returns an error if the
// counts cannot be parsed.
func (b *Breaker) Restore(now time.Time, kept string) error {
	if kept == "" {
		return nil
	}
	var t snapshot
	if err := json.Unmarshal([]byte(kept), &t); err != nil {
		return fmt.Errorf("read the saved counts: %w", err)
	}
	if t.At.After(now) {
		t.At = now
	}
	t.Ahead = min(max(t.Ahead, 0), maxReserved)
	for _, w := range t.Window {
		if w[0] >= 0 && w[1] > 0 && w[1] < math.MaxInt32 {
			b.window.add(now, t.At.Add(-time.Duration(w[0])*time.Millisecond), int(w[1]))
		}
	}
	b.window.add(now, now, t.Ahead)
	for _, s := range t.Cascade {
		root := gc.Coordinates{APIVersion: s.APIVersion, Kind: s.Kind, Namespace: s.Namespace, Name: s.Name, UID: s.UID}
		rate := b.limits.of(root)
		if s.UID == "" || rate.Burst == 0 || s.Used < 0 || len(b.envelopes) >= maxSavedRoots {
			continue
		}
		e := b.envelope(t.At, root)
		e.used, e.total = s.Used, max(s.Total, 0)
		e.drain(now, b.limits)
		e.used = min(e.used+float64(t.Ahead), max(e.used, float64(rate.Burst)))
	}
	return nil
}
