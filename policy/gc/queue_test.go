package gc_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/gc"
)

type thing struct {
	gc.Item
	name string
}

// model is what a queue should do, by looking at everything each time.
type model struct {
	due, after map[string]time.Time
	flying     map[uint64]string
	withheld   map[string]bool
	overtaken  map[string]bool // changed while its action is on its way
	released   map[string]bool // Release was called then
	failures   map[string]int
}

func (m model) ready(now time.Time) (names []string) {
	for name, due := range m.due {
		if m.withheld[name] || slices.Contains(slices.Collect(maps.Values(m.flying)), name) || m.at(name, due).After(now) {
			continue
		}
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(m.at(a, m.due[a]).Compare(m.at(b, m.due[b])), cmp.Compare(a, b))
	})
	return names
}

func (m model) at(name string, due time.Time) time.Time {
	if after := m.after[name]; after.After(due) {
		return after
	}
	return due
}

// TestQueue holds a queue against one that looks at everything: what is ready, in which
// order, and when the next is.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q gc.Queue[*thing]
		things := map[string]*thing{}
		for i := range 6 {
			name := fmt.Sprint(i)
			things[name] = &thing{name: name}
		}
		m := model{map[string]time.Time{}, map[string]time.Time{}, map[uint64]string{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]int{}}
		now := time.Unix(1e9, 0)
		some := rapid.SampledFrom([]string{"0", "1", "2", "3", "4", "5"})
		t.Repeat(map[string]func(*rapid.T){
			"schedule": func(t *rapid.T) {
				name, at := some.Draw(t, "name"), now.Add(time.Duration(rapid.Int64Range(-1e10, 1e10).Draw(t, "in")))
				m.due[name] = at
				q.Schedule(things[name], at)
			},
			"never": func(t *rapid.T) {
				name := some.Draw(t, "name")
				if slices.Contains(slices.Collect(maps.Values(m.flying)), name) {
					t.Skip("it is on its way")
				}
				delete(m.due, name)
				q.Schedule(things[name], time.Time{})
			},
			"changed": func(t *rapid.T) {
				name := some.Draw(t, "name")
				delete(m.after, name)
				delete(m.withheld, name)
				delete(m.failures, name)
				m.overtaken[name] = slices.Contains(slices.Collect(maps.Values(m.flying)), name)
				q.Changed(things[name])
			},
			"release": func(*rapid.T) {
				for name := range m.withheld {
					if m.withheld[name] {
						delete(m.after, name)
					}
				}
				clear(m.withheld)
				for _, name := range m.flying {
					m.released[name] = true
				}
				q.Release(maps.Values(things))
			},
			"time": func(t *rapid.T) { now = now.Add(time.Duration(rapid.Int64Range(0, 1e10).Draw(t, "passes"))) },
			"ready": func(t *rapid.T) {
				want := m.ready(now)
				want = want[:min(len(want), rapid.IntRange(0, 4).Draw(t, "most"))]
				got := q.Ready(now, len(want), func(e *thing) (gc.Action, bool) { return gc.Action{Object: gc.Coordinates{Name: e.name}}, true })
				if len(got) != len(want) {
					t.Fatalf("%d are ready, not %d", len(got), len(want))
				}
				last := time.Time{}
				for _, a := range got { // of the same moment in any order
					at := m.at(a.Object.Name, m.due[a.Object.Name])
					if at.Before(last) || !slices.Contains(m.ready(now), a.Object.Name) {
						t.Fatalf("%s is out of turn", a.Object.Name)
					}
					last = at
				}
				for _, a := range got {
					m.flying[a.ID], m.overtaken[a.Object.Name], m.released[a.Object.Name] = a.Object.Name, false, false
				}
			},
			"finished": func(t *rapid.T) {
				if len(m.flying) == 0 {
					t.Skip("nothing is on its way")
				}
				id := rapid.SampledFrom(slices.Sorted(maps.Keys(m.flying))).Draw(t, "id")
				r := rapid.SampledFrom([]gc.Result{gc.Done, gc.Withheld, gc.Deferred, gc.TooMany, gc.Conflict}).Draw(t, "result")
				name := m.flying[id]
				delete(m.flying, id)
				m.withheld[name] = false
				switch stale := m.overtaken[name]; {
				case r == gc.Done:
					m.after[name], m.failures[name] = now.Add(30*time.Second), 0
				case r == gc.TooMany:
					m.after[name] = now.Add(250 * time.Millisecond)
				case r == gc.Deferred || stale:
					m.after[name] = now
				case r == gc.Withheld:
					m.after[name], m.withheld[name] = now, !m.released[name]
				default:
					m.after[name] = now.Add(min(250*time.Millisecond<<m.failures[name], 5*time.Minute))
					m.failures[name] = min(m.failures[name]+1, 20)
				}
				if e, ok := q.Finished(now, id, r); !ok || e.name != name {
					t.Fatalf("%d was not about %s", id, name)
				}
				if _, ok := q.Finished(now, id, r); ok {
					t.Fatalf("%d ends twice", id)
				}
			},
			"": func(t *rapid.T) {
				next := q.Next()
				if ready := m.ready(time.Unix(1<<40, 0)); len(ready) == 0 != next.IsZero() {
					t.Fatalf("the next is at %v, with %v waiting", next, ready)
				} else if len(ready) > 0 && !next.Equal(m.at(ready[0], m.due[ready[0]])) {
					t.Fatalf("the next is at %v, not %v", next, m.at(ready[0], m.due[ready[0]]))
				}
			},
		})
	})
}

// TestQueueFailures: the pause after failures doubles, up to a bound; a change ends it.
func TestQueueFailures(t *testing.T) {
	var q gc.Queue[*thing]
	e, now := &thing{}, time.Unix(1e9, 0)
	q.Schedule(e, now)
	fail := func(r gc.Result) time.Duration {
		t.Helper()
		a := q.Ready(now, 1, func(*thing) (gc.Action, bool) { return gc.Action{}, true })
		if len(a) != 1 {
			t.Fatal("it is not asked for")
		}
		q.Finished(now, a[0].ID, r)
		pause := q.Next().Sub(now)
		now = q.Next()
		return pause
	}
	for n := range 15 {
		want := min(250*time.Millisecond<<n, 5*time.Minute)
		if got := fail(gc.Failed); got != want {
			t.Errorf("a pause of %v, not %v", got, want)
		}
	}
	q.Changed(e)
	if got := fail(gc.Conflict); got != 250*time.Millisecond {
		t.Errorf("after a change, a pause of %v", got)
	}
}

// TestQueueBounds: a moment beyond what a clock has is kept at that end.
func TestQueueBounds(t *testing.T) {
	var q gc.Queue[*thing]
	for name, at := range map[string]time.Time{
		"long ago": time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC),
		"far":      time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		q.Schedule(&thing{name: name}, at)
	}
	got := q.Ready(time.Unix(1e9, 0), 10, func(e *thing) (gc.Action, bool) { return gc.Action{Reason: gc.Reason(e.name)}, true })
	if len(got) != 1 || got[0].Reason != "long ago" {
		t.Errorf("ready: %v", got)
	}
}

// TestQueueThrottle: while they are slowed, so many are asked for in each pause; held, none.
func TestQueueThrottle(t *testing.T) {
	var q gc.Queue[*thing]
	now := time.Unix(1e9, 0)
	for range 10 {
		q.Schedule(&thing{}, now)
	}
	ready := func(most int) int {
		return len(q.Ready(now, most, func(*thing) (gc.Action, bool) { return gc.Action{}, true }))
	}
	q.Slow(now, now.Add(time.Second), 3)
	if n := ready(10); n != 0 || !q.Next().Equal(now.Add(time.Second)) {
		t.Errorf("%d before their moment, which is %v", n, q.Next())
	}
	now = now.Add(time.Second)
	if n := ready(2) + ready(10); n != 3 {
		t.Errorf("%d, not 3", n)
	}
	q.Hold(true)
	now = now.Add(time.Second)
	if n := ready(10); n != 0 || !q.Next().IsZero() {
		t.Errorf("held, %d are asked for", n)
	}
	q.Hold(false)
	q.Release(func(func(*thing) bool) {})
	if n := ready(10); n != 7 {
		t.Errorf("%d, not the rest", n)
	}
}

// TestQueueWide: once fewer are due than a slowed queue may ask for, it is slow no longer;
// what follows on an action is not counted anew.
func TestQueueWide(t *testing.T) {
	var q gc.Queue[*thing]
	now := time.Unix(1e9, 0)
	e := &thing{}
	ready := func(most int) []gc.Action {
		return q.Ready(now, most, func(*thing) (gc.Action, bool) { return gc.Action{}, true })
	}
	q.Schedule(e, now)
	q.Slow(now, now.Add(time.Minute), 1)
	now = now.Add(time.Minute)
	got := ready(10)
	q.Schedule(&thing{}, now)
	if len(got) != 1 || len(ready(10)) != 0 {
		t.Fatal("the first is not alone")
	}
	q.Finished(now, got[0].ID, gc.Done)
	q.Again(e)
	if n := len(ready(10)); n != 1 {
		t.Fatalf("after its read, %d", n)
	}
	now = now.Add(2 * time.Minute) // a whole pause in which nothing was asked for
	for range 5 {
		q.Schedule(&thing{}, now)
	}
	if n := len(ready(10)); n != 6 {
		t.Errorf("%d go at once", n)
	}
}

// TestObjects: what a list does not name has gone, what came by the watch meanwhile has
// not, and neither has what is of another type.
func TestObjects(t *testing.T) {
	type kept struct{ gc.Entry }
	var s gc.Objects[*kept]
	one, other := gc.Type{APIVersion: "v1", Kind: "One"}, gc.Type{APIVersion: "v1", Kind: "Other"}
	see := func(of gc.Type, uid, version string) bool {
		_, changed := s.Observe(of, gc.Object{UID: uid, ResourceVersion: version}, func() *kept { return new(kept) })
		return changed
	}
	s.Listing(one)
	if !see(one, "a", "1") || see(one, "a", "1") || !see(one, "b", "1") || !see(other, "x", "1") {
		t.Error("what changed is mistaken")
	}
	if s.Current(s.Get("a")) {
		t.Error("current within its first list")
	}
	if !s.Synced(one, func(*kept) { t.Error("something went") }) || s.Synced(one, nil) {
		t.Error("the type became current once, and stays so")
	}
	s.Listing(one)
	see(one, "b", "2")
	see(one, "c", "3")
	gone := ""
	s.Synced(one, func(e *kept) { gone += e.UID })
	if gone != "a" || !s.Current(s.Get("b")) || s.Current(s.Get("x")) || s.Len() != 3 {
		t.Errorf("%q went, %d are left", gone, s.Len())
	}
	if c := s.Coordinates(s.Get("x")); c.Kind != "Other" || c.UID != "x" {
		t.Errorf("x is %+v", c)
	}
	if !s.Unreadable(one) || s.Unreadable(one) || s.Current(s.Get("b")) {
		t.Error("unreadable, and current")
	}
	if _, known := s.Forget("b"); !known {
		t.Error("b was not known")
	}
	s.Restored(func(e *kept) { gone += e.UID })
	if len(gone) != 3 || s.Len() != 0 {
		t.Errorf("%q went, %d are left", gone, s.Len())
	}
}

// TestTypeChangesItsVersion: an upgraded API server prefers another version of a type. Its objects are the
// same, in whatever order one hears of the versions.
func TestTypeChangesItsVersion(t *testing.T) {
	type kept struct{ gc.Entry }
	old, next := gc.Type{APIVersion: "example.com/v1alpha1", Kind: "One", Resource: "ones"}, gc.Type{APIVersion: "example.com/v1", Kind: "One", Resource: "ones"}
	for _, ends := range []string{"before", "after", "after another event"} {
		var s gc.Objects[*kept]
		gone := ""
		list := func(of gc.Type, uids ...string) {
			s.Listing(of)
			for _, uid := range uids {
				s.Observe(of, gc.Object{UID: uid, ResourceVersion: "1"}, func() *kept { return new(kept) })
			}
			s.Synced(of, func(e *kept) { gone += e.UID })
		}
		list(old, "a", "b")
		if ends == "before" {
			s.Unreadable(old)
		}
		list(next, "a")
		if ends == "after another event" {
			s.Observe(old, gc.Object{UID: "a", ResourceVersion: "2"}, nil)
		}
		if ends != "before" {
			s.Unreadable(old)
		}
		if gone != "b" || !s.Current(s.Get("a")) || !s.Known() || s.Coordinates(s.Get("a")).APIVersion != next.APIVersion {
			t.Errorf("%q went; current %v, known %v: %+v", gone, s.Current(s.Get("a")), s.Known(), s.Coordinates(s.Get("a")))
		}
	}
}

// TestEarliest: the first that are due, and how many there are.
func TestEarliest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(rapid.IntRange(0, 50)).Draw(t, "due")
		most, until := rapid.IntRange(0, 5).Draw(t, "most"), rapid.IntRange(1, 60).Draw(t, "until")
		at := func(n int) time.Time {
			if n == 0 {
				return time.Time{}
			}
			return time.Unix(int64(n), 0)
		}
		got, all := gc.Earliest(slices.Values(list), at, at(until), most, func(n int) gc.Planned { return gc.Planned{Finding: gc.Finding{Due: at(n)}} })
		want := slices.DeleteFunc(slices.Clone(list), func(n int) bool { return n == 0 || n > until })
		slices.Sort(want)
		if all != len(want) || len(got) != min(most, len(want)) {
			t.Fatalf("%d of %d, not %d of %d", len(got), all, min(most, len(want)), len(want))
		}
		for i, p := range got {
			if !p.Due.Equal(at(want[i])) {
				t.Fatalf("%d is due at %v", i, p.Due)
			}
		}
	})
}
