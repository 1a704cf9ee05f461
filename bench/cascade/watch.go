package main

import (
	"context"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// watch follows owners and dependents, and counts those of one family.
type watch struct {
	mu      sync.Mutex
	there   map[string]bool // all that exist, by UID: whether they have owners
	family  map[string]bool // the counted dependents
	owners  map[string]bool
	now     progress
	changed chan struct{}
}

// progress is the state of the counted family.
type progress struct {
	owners    int // that exist
	there     int // dependents that exist
	referring int // of these, with owners
	first     time.Time
	last      time.Time // first and last change of a dependent
}

// look makes the watch count another family from now on.
func (w *watch) look(f family) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owners, w.family, w.now = make(map[string]bool, len(f.owners)), make(map[string]bool, len(f.dependents)), progress{}
	for _, o := range f.owners {
		w.owners[o.UID] = true
		if _, ok := w.there[o.UID]; ok {
			w.now.owners++
		}
	}
	for _, d := range f.dependents {
		w.family[d.UID] = true
		if owned, ok := w.there[d.UID]; ok {
			w.now.there++
			if owned {
				w.now.referring++
			}
		}
	}
	w.notify()
}

// restart forgets the times of the first and the last change.
func (w *watch) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now.first, w.now.last = time.Time{}, time.Time{}
}

func (w *watch) notify() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *watch) take(_ context.Context, batch []metadata.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range batch {
		if e.Kind == metadata.Observed || e.Kind == metadata.Deleted {
			w.one(e.Object.UID, e.Kind == metadata.Observed, len(e.Object.Owners) > 0)
		}
	}
	w.notify()
	return nil
}

// one records whether an object exists and has owners.
func (w *watch) one(uid string, there, owned bool) {
	wasOwned, was := w.there[uid]
	if delete(w.there, uid); there {
		w.there[uid] = owned
	}
	if w.owners[uid] {
		w.now.owners += number(there) - number(was)
	}
	if !w.family[uid] || was == there && wasOwned == owned {
		return
	}
	w.now.last = time.Now()
	if w.now.first.IsZero() {
		w.now.first = w.now.last
	}
	w.now.there += number(there) - number(was)
	w.now.referring += number(there && owned) - number(was && wasOwned)
}

func number(is bool) int {
	if is {
		return 1
	}
	return 0
}

// until waits until holds returns true. It calls holds after each batch of events.
func (w *watch) until(ctx context.Context, holds func(progress) bool) error {
	for {
		w.mu.Lock()
		ok := holds(w.now)
		w.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (w *watch) progress() progress {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// count returns how many objects exist.
func (w *watch) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.there)
}
