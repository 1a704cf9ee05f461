package gctest

import (
	"maps"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// wait is an object that something is to be done about, at a moment.
type wait struct {
	Object
	at  time.Time
	why gc.Reason
}

// waiting are all of them, the earliest first.
func (w *World) waiting() (all []wait) {
	for uid, o := range w.told {
		why, at := w.Oracle(o, w.Now, w.current)
		m := w.memory[uid]
		if at.IsZero() || m.withheld || w.isFlying(uid) {
			continue
		}
		if m.after.After(at) {
			at = m.after
		}
		all = append(all, wait{o, at, why})
	}
	slices.SortFunc(all, func(a, b wait) int { return a.at.Compare(b.at) })
	return all
}

func (w *World) isFlying(uid string) bool {
	for _, f := range w.flying {
		if f.Object.UID == uid && !f.forgotten {
			return true
		}
	}
	return false
}

// ready takes some of what is due: it must be the earliest.
func (w *World) ready() {
	var due []wait
	for _, o := range w.waiting() {
		if !w.held && !o.at.After(w.Now) {
			due = append(due, o)
		}
	}
	most := w.Pick(4)
	got := w.Collector.Ready(w.Now, most)
	if want := min(most, len(due)); len(got) != want {
		w.Fatalf("%d actions, not %d of %d that are due: %v", len(got), want, len(due), got)
	}
	var last time.Time
	for _, a := range got {
		i := slices.IndexFunc(due, func(o wait) bool { return o.UID == a.Object.UID })
		if i < 0 {
			w.Fatalf("%v is not due", a)
		}
		o := due[i]
		want := gc.Action{
			Collector: a.Collector, ID: a.ID, Verb: gc.Delete, Policy: w.Policy, Reason: o.why, ResourceVersion: o.ResourceVersion,
			Object: gc.Coordinates{APIVersion: w.Type.APIVersion, Kind: w.Type.Kind, Resource: w.Type.Resource, Namespace: o.Namespace, Name: o.Name, UID: o.UID},
		}
		if a.Refs != nil || a.Collector == "" || a.ID == 0 || !same(a, want) {
			w.Fatalf("the action is %+v, not %+v", a, want)
		}
		if o.at.Before(last) || o.at.After(due[len(got)-1].at) {
			w.Fatalf("%v is out of turn", a)
		}
		last = o.at
		w.flying[a.ID] = flight{Action: a}
		m := w.memory[o.UID]
		m.asked, m.last = true, gc.Failed
	}
}

func same(a, b gc.Action) bool {
	return a.Verb == b.Verb && a.Policy == b.Policy && a.Reason == b.Reason && a.ResourceVersion == b.ResourceVersion &&
		a.Object == b.Object && !a.NoGrace && a.Finalizer == ""
}

// finish answers a request as the server does, or with a fault.
func (w *World) finish() {
	if len(w.flying) == 0 {
		return
	}
	ids := slices.Sorted(maps.Keys(w.flying))
	id := ids[w.Pick(len(ids))]
	f := w.flying[id]
	delete(w.flying, id)
	result := w.answer(f.Action)
	w.Collector.Finished(w.Now, id, result)
	m := w.memory[f.Object.UID]
	if f.forgotten || m == nil {
		return
	}
	switch m.last = result; result {
	case gc.Done, gc.Gone:
		m.failures, m.after = 0, w.Now.Add(30*time.Second)
	case gc.TooMany:
		m.after = w.Now.Add(250 * time.Millisecond)
	case gc.Withheld:
		m.withheld, m.after = true, w.Now
	case gc.Deferred:
		m.after = w.Now
	default:
		pause := 250 * time.Millisecond
		if result == gc.Forbidden {
			pause = 5 * time.Minute / 16
		}
		for range m.failures {
			pause = min(2*pause, 5*time.Minute)
		}
		m.failures++
		m.after = w.Now.Add(pause)
	}
}

// answer carries out a request, unless something fails.
func (w *World) answer(a gc.Action) gc.Result {
	if w.Pick(2) == 0 {
		faults := []gc.Result{gc.Failed, gc.TooMany, gc.Withheld, gc.Deferred, gc.Forbidden}
		return faults[w.Pick(len(faults))]
	}
	o, there := w.server[a.Object.UID]
	switch {
	case !there:
		return gc.Gone
	case o.ResourceVersion != a.ResourceVersion:
		return gc.Conflict
	}
	w.Deleted++
	delete(w.server, o.UID)
	w.catchUp()
	return gc.Done
}

// check looks at what must hold after every step.
func (w *World) check() {
	var want time.Time
	if all := w.waiting(); len(all) > 0 && !w.held {
		want = all[0].at
	}
	if got := w.Collector.Next(); !got.Equal(want) {
		w.Fatalf("next is %v, not %v", got, want)
	}
	if w.Collector.Len() != len(w.told) {
		w.Fatalf("%d objects are kept, not %d", w.Collector.Len(), len(w.told))
	}
	for uid := range w.server {
		f, known := w.Collector.Explain(gc.Coordinates{UID: uid})
		o, told := w.told[uid]
		if known != told {
			w.Fatalf("%s is known: %v", uid, known)
		}
		if !told {
			continue
		}
		why, due := w.Oracle(o, w.Now, w.current)
		want := gc.Finding{Reason: why, Due: due.UTC(), InFlight: w.isFlying(uid), Asked: w.memory[uid].asked, Last: w.memory[uid].last}
		if f != want {
			w.Fatalf("%s is explained by %+v, not %+v", uid, f, want)
		}
	}
}
