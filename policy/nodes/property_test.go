package nodes_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/gc/gctest"
	"github.com/ebb-agent/ebb/policy/leases"
	"github.com/ebb-agent/ebb/policy/nodes"
)

func (l lookup) has(name string) bool {
	return slices.ContainsFunc(l, func(m nodes.Machine) bool { return strings.EqualFold(m.Name, name) })
}

type lookup []nodes.Machine

// believable reports whether the inventory that was given is plausible.
func (w *world) believable() bool {
	g, all, ready, there := w.given, 0, 0, 0
	for _, x := range w.observed {
		n, is := x.fields.(nodes.Node)
		if !is {
			continue
		}
		if all++; lookup(g.Machines).has(x.Name) {
			there++
		}
		if n.Ready && !n.Created.After(g.Time) {
			if ready++; !lookup(g.Machines).has(x.Name) {
				return false
			}
		}
	}
	enough := func(n, of int) bool { return float64(n) >= minShare*float64(of) || n >= of-1 }
	for _, t := range types {
		if w.readable[t.Kind].IsZero() {
			return false
		}
	}
	return ready > 0 && len(g.Machines) > 0 && enough(len(g.Machines), w.lastOK) && enough(there, all) && w.now.Sub(g.Time) <= oldest && g.Time.Sub(w.now) <= nodes.Ahead
}

// due is when nothing but the inventory kept a Node any more; zero: something does.
func (w *world) due(x thing) time.Time {
	n := x.fields.(nodes.Node)
	times := []time.Time{n.Since.Add(staleAfter), n.Heard.Add(staleAfter), x.lived.Add(staleAfter), x.firstSeen.Add(nodes.WatchFor)}
	for _, t := range types {
		if w.readable[t.Kind].IsZero() {
			return time.Time{}
		}
		times = append(times, w.readable[t.Kind].Add(nodes.WatchFor))
	}
	attached := false
	for _, y := range w.observed {
		if a, is := y.fields.(nodes.Attachment); is && a.Node == x.Name {
			attached = true
		}
	}
	if l, is := find(w.observed, "Lease", x.Name); is {
		times = append(times, l.fields.(leases.Lease).Expires.Add(staleAfter), l.lived.Add(staleAfter))
	}
	due := slices.MaxFunc(times, time.Time.Compare)
	if n.Ready || (n.Volumes || attached) && !n.OutOfService || !slices.Contains(n.Labels, "gone=yes") || due.After(w.now) {
		return time.Time{}
	}
	return due
}

// act takes what is asked for, and looks whether it may be.
func (w *world) act() {
	for _, a := range w.c.Ready(w.now, 1+w.pick(3)) {
		if w.held {
			w.Fatalf("%+v while all is held", a)
		}
		w.flying[a.ID] = a
		switch a.Verb {
		case gc.Inventory:
			x := w.observed[a.Object.UID]
			if x.UID == "" || w.due(x).IsZero() {
				w.Fatalf("the inventory is asked for %s, which is not due", a.Object.Name)
			}
			if w.asked, w.askedAt, w.given = a.ID, w.now, nil; len(w.seen) > 0 {
				clear(w.seen)
			}
		case gc.Delete:
			w.judge(a)
			w.deleted[a.Object.UID] = w.now
		}
	}
}

// judge a deletion from scratch.
func (w *world) judge(a gc.Action) {
	x := w.observed[a.Object.UID]
	if x.UID == "" || a.ResourceVersion != x.ResourceVersion {
		w.Fatalf("%+v is not what was observed: %+v", a, x)
	}
	due := w.due(x)
	if due.IsZero() {
		w.Fatalf("%+v is not due", x)
	}
	if w.given == nil || w.askedAt.Before(due) || w.now.Sub(w.askedAt) > nodes.FreshFor || lookup(w.given.Machines).has(x.Name) {
		w.Fatalf("%+v is not cleared by %+v of %v, due at %v", x, w.given, w.askedAt, due)
	}
	l, _ := find(w.observed, "Lease", x.Name)
	if want := l.UID + l.ResourceVersion + w.askedAt.String(); w.seen[x.Name] != want {
		w.Fatalf("%+v: its Lease was not read since: %q, want %q", x, w.seen[x.Name], want)
	}
	lately, all := 0, 0
	for uid, at := range w.deleted {
		if w.now.Sub(at) < time.Hour && uid != x.UID {
			if lately++; w.observed[uid].UID == "" {
				all++
			}
		}
	}
	for _, y := range w.observed {
		if y.Kind == "Node" {
			all++
		}
	}
	if lately > 0 && float64(lately+1) > share*float64(all)+1e-9 {
		w.Fatalf("%+v is one too many: %d of %d within an hour", x, lately+1, all)
	}
}

func (w *world) step() {
	switch n := w.pick(32); {
	case n < 8:
		w.change()
	case n < 16:
		w.read()
	case n < 22:
		w.act()
	case n < 28:
		w.answer()
	case n < 31:
		w.now = w.now.Add(time.Duration(w.pick(1000)) * []time.Duration{time.Second, time.Minute, 10 * time.Minute}[w.pick(3)] / 1000)
		if w.pick(4) == 0 {
			w.now = w.now.Add(staleAfter)
		}
	default:
		w.held = w.pick(3) == 0
		w.c.Hold(w.now, w.held)
		w.c.Release(w.now)
	}
}

// quiet has the world be still and truthful for a day: then all go that may, and no more.
func (w *world) quiet() {
	w.held, w.still = false, true
	w.c.Hold(w.now, false)
	w.c.Release(w.now)
	w.machines["n-9"] = nodes.Machine{Name: "n-9"}
	w.write(thing{Object: gc.Object{APIVersion: "v1", Kind: "Node", Name: "n-9"}, t: nodeType, fields: nodes.Node{Ready: true, Since: w.now, Created: w.now.Truncate(time.Second)}})
	for _, uid := range slices.Sorted(maps.Keys(w.server)) {
		if n, is := w.server[uid].fields.(nodes.Node); is && n.Ready {
			w.machines[w.server[uid].Name] = nodes.Machine{Name: w.server[uid].Name}
		}
	}
	for end := w.now.Add(24 * time.Hour); w.now.Before(end); w.now = w.now.Add(time.Minute) {
		for _, t := range types {
			w.list(t)
		}
		for w.act(); len(w.flying) > 0; w.act() {
			for len(w.flying) > 0 {
				w.answer()
			}
		}
	}
}

// TestHistories has every deletion in random histories judged from scratch.
func TestHistories(t *testing.T) {
	histories, deleted := 0, 0
	gctest.Histories(t, func(t *rapid.T) {
		histories++
		w := &world{T: t, now: time.Unix(1e9, 0).UTC(), server: map[string]thing{}, observed: map[string]thing{}, readable: map[string]time.Time{}, machines: map[string]nodes.Machine{},
			flying: map[uint64]gc.Action{}, seen: map[string]string{}, deleted: map[string]time.Time{},
			c: nodes.New(nodes.Config{NotReadyFor: staleAfter, Label: "gone", Inventory: true, MaxAge: oldest, MinShare: minShare, MaxShare: share})}
		for range 400 {
			w.step()
		}
		w.quiet()
		deleted += w.count
		w.given = w.inventory()
		for _, x := range w.observed {
			if x.Kind == "Node" && w.believable() && !w.due(x).IsZero() && !lookup(w.given.Machines).has(x.Name) {
				f, _ := w.c.Explain(gc.Coordinates{UID: x.UID})
				t.Errorf("%+v is there: %+v", x, f)
			}
		}
	})
	if t.Logf("%d were deleted in %d histories", deleted, histories); deleted < histories/20 {
		t.Error("hardly anything was ever deleted")
	}
}
