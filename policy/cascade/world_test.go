package cascade

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/gc"
)

// dice draws a number below n.
type dice func(n int) int

func rapidDice(t *rapid.T) dice {
	return func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") }
}

func seeded(seed uint64) dice {
	r := rand.New(rand.NewPCG(seed, 7))
	return r.IntN
}

// world is an API server, the collector, and what is on its way between them.
type world struct {
	*server
	c       *Collector
	forgets bool // c remembers few that went, and no event comes twice
	roll    dice
	flight  []gc.Action
	late    []func() // answers that are on their way back
	calm    bool
	story   []string
	saved   func()
}

func newWorld(roll dice) *world {
	w := &world{server: newServer(), roll: roll}
	w.restart()
	return w
}

func (w *world) logf(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf(format, args...))
}

var kindNames = []string{"Pod", "Set", "Thing", "Realm", "Far"}

// restart loses all state: a crash, or another leader.
func (w *world) restart() {
	c := Config{KeepOrphaned: 100 * time.Millisecond}
	if w.forgets = w.roll(2) == 0; w.forgets {
		c.Tombstones = 1 + w.roll(6)
	}
	w.c, w.flight, w.late = New(c), nil, nil
	w.c.ExcludeNamespaces(w.now, []string{w.excludes})
	w.recall()
	w.logf("restart")
	for _, kind := range kindNames {
		w.streams[kind].listed = false
	}
	for _, t := range w.sortedTypes() {
		if t.served {
			w.c.TypeCame(w.now, t.Type)
		}
	}
}

// backup and restore: an etcd of before. Versions go on from there, and mean
// other things than they did.
func (w *world) backup() {
	saved, version := w.cloned(), w.version
	journal := maps.Clone(w.journal)
	w.saved = func() {
		w.journal = journal
		w.version = version
		w.objects = saved
		clear(w.asRead)
		clear(w.waited)
		clear(w.orphans)
		for _, o := range w.objects {
			delete(w.leftBehind, o.UID)
			if o.Terminating && slices.Contains(o.Finalizers, gc.OrphanFinalizer) {
				w.orphans[o.UID] = version + 1
			}
		}
	}
}

func (w *world) cloned() (list []*stored) {
	for _, o := range w.objects {
		list = append(list, &stored{snapshot(o), maps.Clone(o.refSince)})
	}
	return list
}

func (w *world) restore() {
	if w.saved == nil {
		return
	}
	w.logf("etcd is restored")
	w.saved()
	w.saved = nil
	w.flight = nil // connections are broken
	w.c.Restored(w.now)
	w.recall()
	for _, e := range w.c.Journal() {
		w.journal[e.UID] = e.Recorded // the caller writes the union
	}
	for _, kind := range kindNames {
		w.streams[kind].listed, w.streams[kind].pending, w.streams[kind].past = false, nil, nil
	}
}

func (w *world) sortedTypes() (list []*servedAs) {
	for _, t := range w.types {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *servedAs) int {
		return slices.Compare([]string{a.APIVersion, a.Kind}, []string{b.APIVersion, b.Kind})
	})
	return list
}

// recall hands the durable journal to the collector.
func (w *world) recall() {
	for _, id := range slices.Sorted(maps.Keys(w.journal)) {
		w.c.Recall(w.now, []Entry{{id, w.journal[id]}})
	}
}

// sweep the journal, if everything was delivered.
func (w *world) sweep() {
	for _, kind := range kindNames {
		if st := w.streams[kind]; !st.listed || len(st.pending) > 0 || !w.types[st.as].served {
			return
		}
	}
	for _, id := range w.c.Swept(w.now, w.now) {
		w.logf("forget %s", id)
		delete(w.journal, id)
		w.forgotten++
	}
}

// list a type from the start: what was on its way is in it.
func (w *world) list(kind string) {
	st := w.streams[kind]
	t := w.types[st.as]
	if !t.served {
		return
	}
	st.pending, st.past = nil, nil
	w.c.Listing(w.now, t.APIVersion, t.Kind)
	for _, o := range w.objects {
		if o.Kind != kind || t.Aggregated && w.lies == lyingNow && len(o.Owners) == 0 {
			continue
		}
		if !w.calm && w.roll(15) == 0 {
			// A list of an API server that is behind: made later, as it were.
			st.pending = append(st.pending, event{object: snapshot(o), behind: true})
			continue
		}
		w.c.Observe(w.now, snapshot(o))
	}
	w.c.Synced(w.now, t.APIVersion, t.Kind)
	st.listed = true
	w.logf("list %s", kind)
}

// deliver the next event of a type, or an old one again.
func (w *world) deliver(kind string) {
	st := w.streams[kind]
	if !w.types[st.as].served {
		return
	}
	if !st.listed {
		w.list(kind)
		return
	}
	// Events that come in order stay in order where versions cannot decide.
	if !w.calm && !w.forgets && len(st.past) > 0 && !w.types[st.as].Aggregated && w.roll(8) == 0 {
		w.hand(st.past[w.roll(len(st.past))], "again")
		return
	}
	if len(st.pending) == 0 {
		return
	}
	e := st.pending[0]
	st.pending = st.pending[1:]
	st.past = append(st.past, e)
	w.hand(e, "")
}

func (w *world) hand(e event, how string) {
	w.logf("event %s %s/%s rv=%s deleted=%v terminating=%v %v %s", e.object.Kind, e.object.Namespace, e.object.Name, e.object.ResourceVersion, e.deleted, e.object.Terminating, e.object.Finalizers, how)
	if e.deleted {
		w.c.Forget(w.now, e.object)
	} else {
		w.c.Observe(w.now, e.object)
	}
}

// take actions from the collector.
func (w *world) take(most int) {
	for _, a := range w.c.Ready(w.now, most) {
		if a.Verb != gc.Withdraw {
			w.flight = append(w.flight, a)
		} else if w.roll(4) > 0 { // it may be lost with a crash
			delete(w.journal, a.Object.UID)
		}
	}
}

// carryOut one of the actions on their way.
func (w *world) carryOut(at int) {
	a := w.flight[at]
	w.flight = slices.Delete(w.flight, at, at+1)
	w.tick()
	fails := !w.calm && w.roll(10) == 0
	switch a.Verb {
	case gc.Warn:
	case gc.Record:
		w.logf("record %s %s/%s: fails %v", a.Object.Kind, a.Object.Namespace, a.Object.Name, fails)
		if fails {
			w.c.Finished(w.now, a.ID, gc.Failed)
			return
		}
		w.journal[a.Object.UID] = w.now
		w.c.Finished(w.now, a.ID, gc.Done)
	case gc.Verify, gc.Read:
		answer, asOf := w.read(a.Object, a.Reason), w.now
		if fails {
			answer = gc.Answer{}
		}
		w.logf("%s %s %s/%s: %d", a.Verb, a.Object.Kind, a.Object.Namespace, a.Object.Name, answer.State)
		w.answer(a, func() { w.c.Answered(w.now, asOf, a.ID, answer) })
	default:
		w.outrun(a)
		result, response := gc.Failed, (*gc.Object)(nil)
		if a.Verb == gc.Delete && !w.calm && w.roll(6) == 0 {
			result, fails = w.deferred(a), true
		}
		if !fails {
			result, response = w.execute(a)
		}
		w.logf("%s %s %s/%s %s %s (%s): %s", a.Verb, a.Policy, a.Object.Namespace, a.Object.Name, a.Object.Kind, a.Finalizer, a.Reason, result)
		lost := result != gc.Deferred && !w.calm && w.roll(12) == 0
		w.answer(a, func() {
			if response != nil {
				w.c.Patched(w.now, a.ID, *response)
			}
			if lost {
				result = gc.Failed // it was carried out, and the answer was cut off
			}
			w.c.Finished(w.now, a.ID, result)
		})
	}
}

// outrun changes an object just before a request about it comes: in nothing, or in its
// owners.
func (w *world) outrun(a gc.Action) {
	o := w.byUID(a.Object.UID)
	if o == nil || w.calm || w.roll(3) > 0 {
		return
	}
	if w.roll(3) == 0 && !o.Terminating {
		w.setOwners(o, w.anyOwners(o.Kind, o.Namespace))
	} else {
		w.setOwners(o, o.Owners)
	}
	w.logf("somebody is quicker with %s %s/%s: %v", o.Kind, o.Namespace, o.Name, o.Owners)
}

// answer hands an answer over: now, or after something else has happened.
func (w *world) answer(a gc.Action, hand func()) {
	if w.calm || w.roll(6) > 0 {
		hand()
		return
	}
	w.late = append(w.late, func() {
		w.logf("the answer to %s %s %s/%s comes late", a.Verb, a.Object.Kind, a.Object.Namespace, a.Object.Name)
		hand()
	})
}

// arrive has one of the answers that are late come.
func (w *world) arrive(at int) {
	hand := w.late[at]
	w.late = slices.Delete(w.late, at, at+1)
	hand()
}

// breakOff begins a list that does not end, or has a type unreadable for a moment.
func (w *world) breakOff(kind string) {
	st := w.streams[kind]
	t := w.types[st.as]
	if !t.served {
		return
	}
	if st.listed && w.roll(2) == 0 {
		w.logf("%s cannot be read for a moment", kind)
		w.c.Unreadable(w.now, t.APIVersion, t.Kind)
		w.c.Synced(w.now, t.APIVersion, t.Kind)
		return
	}
	w.logf("a list of %s breaks off", kind)
	w.c.Listing(w.now, t.APIVersion, t.Kind)
	for _, o := range w.objects {
		if o.Kind == kind && w.roll(2) == 0 {
			w.c.Observe(w.now, snapshot(o))
		}
	}
	st.listed, st.pending, st.past = false, nil, nil
}

// deferred returns the answer of the gate to deletions that it does not want now.
func (w *world) deferred(a gc.Action) gc.Result {
	if w.roll(3) == 0 {
		w.logf("deletions are held")
		w.c.Hold(w.now, true)
		return gc.Deferred
	}
	pause := time.Duration(1+w.roll(30)) * 100 * time.Millisecond
	w.logf("root %s is slowed for %v", a.Root.UID, pause)
	w.c.Slow(w.now, a.Root.UID, w.now.Add(pause), 1+w.roll(3))
	return gc.Deferred
}

// lie has the other API server begin or end to.
func (w *world) lie() {
	switch w.lies {
	case truthful:
		w.lies = lyingNow
		w.list("Far")
	case lyingNow:
		w.lies = liedOnce
		w.streams["Far"].listed = false
	}
	w.logf("lying: %d", w.lies)
}

// settle lets everything happen that is going to, without anybody interfering.
func (w *world) settle() error {
	w.calm = true
	w.logf("calm")
	for len(w.late) > 0 {
		w.arrive(0)
	}
	w.c.Hold(w.now, false)
	if w.lies == lyingNow {
		w.lie()
	}
	w.create("Far", "b", "witness", nil, nil)
	for _, t := range w.sortedTypes() {
		if !t.served {
			t.served = true
			w.c.TypeCame(w.now, t.Type)
			if !t.Unwatched {
				w.streams[t.Kind].listed = false
			}
		}
	}
	for _, o := range slices.Clone(w.objects) {
		w.dropForeign(o)
	}
	for range 3000 {
		for _, kind := range kindNames {
			for st := w.streams[kind]; !st.listed || len(st.pending) > 0; {
				w.deliver(kind)
			}
		}
		w.take(1000)
		if len(w.flight) > 0 {
			for len(w.flight) > 0 {
				w.carryOut(0)
			}
			continue
		}
		next := w.c.Next()
		if w.fault != "" || next.IsZero() || next.Sub(noon) > 100*time.Hour {
			return nil
		}
		if next.After(w.now) {
			if todo := w.outstanding(); len(todo) == 0 {
				return nil // only owners that are read again now and then
			}
			w.now = next
		}
	}
	return fmt.Errorf("no end of it: %v", w.outstanding())
}

// dropForeign takes other controllers' finalizers off.
func (w *world) dropForeign(o *stored) {
	if slices.Contains(o.Finalizers, "other") {
		w.setFinalizers(o, slices.DeleteFunc(slices.Clone(o.Finalizers), func(f string) bool { return f == "other" }))
	}
}
