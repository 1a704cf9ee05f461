// Package journaltest has what every store of a journal must do, the one in the cluster
// and the one in memory.
package journaltest

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/journal"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func entries(uids ...string) map[string]time.Time {
	m := map[string]time.Time{}
	for _, uid := range uids {
		m[uid] = noon
	}
	return m
}

func uids(m map[string]time.Time) string { return strings.Join(slices.Sorted(maps.Keys(m)), " ") }

// Conformance runs the suite on an empty store of the journal with this name.
func Conformance(t *testing.T, store journal.Store, name string) {
	t.Run("segments", func(t *testing.T) { testSegments(t, store, name) })
	t.Run("processes", func(t *testing.T) { testProcesses(t, store, name) })
}

// A segment is stored only in place of the one that was read.
func testSegments(t *testing.T, store journal.Store, name string) {
	ctx := t.Context()
	part := journal.Segment{Name: name + "-part", Entries: entries("a", "b/c d")}
	if _, err := store.Get(ctx, part.Name); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("get of nothing: %v", err)
	}
	version, err := store.Put(ctx, part)
	if err != nil {
		t.Fatal(err)
	}
	got, err := store.Get(ctx, part.Name)
	if err != nil || got.Version != version || !maps.Equal(got.Entries, part.Entries) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := store.Put(ctx, part); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("a second one of this name: %v", err)
	}
	got.Entries = entries("c")
	if _, err := store.Put(ctx, got); err != nil {
		t.Error(err)
	}
	if _, err := store.Put(ctx, got); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("one that follows another: %v", err)
	}
	if names, err := store.List(ctx); err != nil || !slices.Equal(names, []string{part.Name}) {
		t.Errorf("%v, %v", names, err)
	}
	for range 2 {
		if err := store.Delete(ctx, part.Name); err != nil {
			t.Error(err)
		}
	}
	if _, err := store.Put(ctx, got); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("in place of one that went: %v", err)
	}
}

// The next process finds all that was stored, and the one before stores nothing more.
func testProcesses(t *testing.T, store journal.Store, name string) {
	ctx := t.Context()
	first, second := journal.New(store, name), journal.New(store, name)
	if found, err := first.TakeOver(ctx, nil); err != nil || !found.Absent || len(found.Entries) > 0 {
		t.Errorf("at first: %+v, %v", found, err)
	}
	if err := first.Write(ctx, entries("a", "b"), nil); err != nil {
		t.Fatal(err)
	}
	if found, err := second.TakeOver(ctx, entries("c")); err != nil || uids(found.Entries) != "a b c" || found.Absent {
		t.Errorf("%+v, %v", found, err)
	}
	if !second.Has("a") || !second.Has("c") || second.Has("d") || second.Len() != 3 {
		t.Error("the second does not know what is stored")
	}
	if err := first.Write(ctx, entries("d"), nil); !errors.Is(err, journal.ErrFenced) {
		t.Errorf("the first writes: %v", err)
	}
	if first.Has("d") {
		t.Error("the first takes it for stored")
	}
	if err := second.Write(ctx, nil, []string{"a"}); err != nil {
		t.Error(err)
	}
	if found, err := journal.New(store, name).Read(ctx); err != nil || uids(found.Entries) != "b c" {
		t.Errorf("%+v, %v", found, err)
	}
}
