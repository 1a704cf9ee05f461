package gctest

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// wait is an object on which an action is due, and when.
type wait struct {
	Object
	at  time.Time
	why gc.Reason
}

// waiting returns all of them, the earliest first.
func (w *World) waiting() (all []wait) {
	for uid, o := range w.observed {
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
		if f.of == uid && !f.forgotten {
			return true
		}
	}
	return false
}

// ready takes some of the due actions: they must be the earliest.
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
		i := slices.IndexFunc(due, func(o wait) bool { return same(a, w.action(o)) })
		if i < 0 {
			w.Fatalf("%+v is not among what is due: %+v", a, due)
		}
		o := due[i]
		if a.ID == 0 || o.at.Before(last) || o.at.After(due[len(got)-1].at) {
			w.Fatalf("%+v is out of turn", a)
		}
		last = o.at
		w.flying[a.ID] = flight{Action: a, of: o.UID, sent: w.Now, version: o.ResourceVersion}
		m := w.memory[o.UID]
		m.asked, m.last = true, gc.Failed
	}
}

// action returns the action that the collector should emit.
func (w *World) action(o wait) gc.Action {
	a := gc.Action{
		Verb: gc.Delete, Policy: w.Policy, Reason: o.why, ResourceVersion: o.ResourceVersion,
		Object: gc.Coordinates{APIVersion: w.Type.APIVersion, Kind: w.Type.Kind, Resource: w.Type.Resource, Namespace: o.Namespace, Name: o.Name, UID: o.UID},
	}
	if w.Beside.Act != nil {
		a = w.Beside.Act(o.Object, a)
	}
	a.Collector = w.Name
	return a
}

func same(a, b gc.Action) bool {
	a.ID = b.ID
	return reflect.DeepEqual(a, b)
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
	var result gc.Result
	read := f.Verb == gc.Verify
	if read {
		result = w.read(f)
	} else {
		result = w.answer(f.Action)
		w.Collector.Finished(w.Now, id, result)
	}
	m := w.memory[f.of]
	if f.forgotten || m == nil {
		return
	}
	switch m.last = result; result {
	case gc.Done, gc.Gone:
		if m.failures, m.after = 0, w.Now.Add(30*time.Second); read {
			m.after = time.Time{}
		}
	case gc.TooMany:
		m.after = w.Now.Add(250 * time.Millisecond)
	case gc.Deferred:
		m.after = w.Now
	default:
		if w.observed[f.of].ResourceVersion != f.version {
			m.after = w.Now // the result is about the earlier version
			break
		}
		if result == gc.Withheld {
			m.withheld, m.after = !f.released, w.Now
			break
		}
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

// read answers a live read.
func (w *World) read(f flight) gc.Result {
	a := gc.Answer{State: []gc.State{gc.Unknown, gc.TooBusy, gc.Exists, gc.Exists}[w.Pick(4)]}
	if a.State == gc.Exists {
		a = w.Beside.Read(f.Action)
	}
	w.Collector.Answered(w.Now, f.sent, f.ID, a)
	switch a.State {
	case gc.Unknown:
		return gc.Failed
	case gc.TooBusy:
		return gc.TooMany
	}
	if !f.forgotten {
		w.Beside.Answered(f.of, f.sent, w.observed[f.of].ResourceVersion != f.version, a)
	}
	return gc.Done
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

// check verifies what must hold after every step.
func (w *World) check() {
	var first wait
	if all := w.waiting(); len(all) > 0 && !w.held {
		first = all[0]
	}
	if got := w.Collector.Next(); !got.Equal(first.at) {
		w.Fatalf("next is %v, not %+v", got, first)
	}
	kept := len(w.observed)
	if w.Beside.Kept != nil {
		kept += w.Beside.Kept()
	}
	if w.Collector.Len() != kept {
		w.Fatalf("%d objects are kept, not %d", w.Collector.Len(), kept)
	}
	for uid := range w.server {
		f, known := w.Collector.Explain(gc.Coordinates{UID: uid})
		o, observed := w.observed[uid]
		if known != observed {
			w.Fatalf("%s is known: %v", uid, known)
		}
		if !observed {
			continue
		}
		why, due := w.Oracle(o, w.Now, w.current)
		want := gc.Finding{Reason: why, Due: due.UTC(), InFlight: w.isFlying(uid), Asked: w.memory[uid].asked, Last: w.memory[uid].last}
		if f != want {
			w.Fatalf("%s is explained by %+v, not %+v", uid, f, want)
		}
	}
}
