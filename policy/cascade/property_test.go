package cascade

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/gc"
)

// In any world the collector does nothing that the true world forbids, and in
// the end leaves nothing undone.
func TestAnyWorld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapidDice(t))
		if err := w.live(60); err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(w.story, "\n"))
		}
	})
	worlds, deleted, forgotten := 1500, 0, 0
	if n, err := strconv.Atoi(os.Getenv("EBB_WORLDS")); err == nil {
		worlds = n
	}
	for seed := range uint64(worlds) {
		w := newWorld(seeded(seed))
		if err := w.live(150); err != nil {
			t.Fatalf("world %d: %v\n%s", seed, err, strings.Join(w.story, "\n"))
		}
		deleted += w.deleted
		forgotten += w.forgotten
	}
	if deleted < worlds || forgotten < worlds/100 {
		t.Errorf("%d deletions and %d forgotten owners in %d worlds: nothing happens in them", deleted, forgotten, worlds)
	}
}

// The same inputs give the same actions in the same order.
func TestDeterministic(t *testing.T) {
	for seed := range uint64(40) {
		first, second := newWorld(seeded(seed)), newWorld(seeded(seed))
		if a, b := first.live(150), second.live(150); a != nil || b != nil {
			t.Fatal(a, b)
		}
		if !slices.Equal(first.story, second.story) {
			t.Fatalf("world %d: two stories", seed)
		}
	}
}

func (w *world) live(steps int) error {
	if w.roll(4) == 0 {
		w.exclude("b")
	}
	for range 4 + w.roll(8) {
		w.user()
	}
	for range steps {
		w.step()
		if w.fault != "" {
			return fmt.Errorf("forbidden: %s", w.fault)
		}
		if err := w.c.consistent(); err != nil {
			return err
		}
	}
	if err := w.settle(); err != nil {
		return err
	}
	if w.fault != "" {
		return fmt.Errorf("forbidden: %s", w.fault)
	}
	if todo := w.outstanding(); len(todo) > 0 {
		return fmt.Errorf("left undone: %v", todo)
	}
	return w.c.consistent()
}

func (w *world) step() {
	kind := kindNames[w.roll(len(kindNames))]
	switch n := w.roll(100); {
	case n < 25:
		w.user()
	case n < 60:
		w.deliver(kind)
	case n < 88:
		w.take(1 + w.roll(8))
		for range w.roll(len(w.flight) + 1) {
			w.carryOut(w.roll(len(w.flight)))
		}
	case n < 92:
		if len(w.late) > 0 {
			w.arrive(w.roll(len(w.late)))
		}
	case n < 93:
		w.breakOff(kind)
	case n < 94:
		// What is on its way is carried out before time goes on.
		for len(w.flight) > 0 {
			w.carryOut(w.roll(len(w.flight)))
		}
		w.now = w.now.Add(time.Duration(1+w.roll(40)) * 100 * time.Millisecond)
		if w.roll(6) == 0 {
			w.now = w.now.Add(2 * time.Minute) // what is not found twice is believed
		}
		w.sweep()
	case n < 95:
		if w.roll(3) == 0 {
			w.lie()
			return
		}
		w.list(kind)
		w.c.Hold(w.now, false)
	case n < 96:
		w.restart()
	case n < 97:
		w.exclude([]string{"", "b"}[w.roll(2)])
		for _, kind := range kindNames {
			for st := w.streams[kind]; w.types[st.as].served && (!st.listed || len(st.pending) > 0); {
				w.deliver(kind)
			}
		}
		w.sweep()
	case n < 98:
		if w.saved == nil {
			w.backup()
		} else {
			w.restore()
		}
	default:
		w.flap()
	}
}

// flap takes a type away, or brings it back; its objects may have gone with it.
func (w *world) flap() {
	types := w.sortedTypes()
	t := types[w.roll(len(types))]
	key := typeKey(t.APIVersion, t.Kind)
	w.logf("flap %s, was served: %v", key, t.served)
	if !t.served {
		t.served = true
		if !t.Unwatched {
			w.streams[t.Kind].listed = false
		}
		w.c.TypeCame(w.now, t.Type)
		return
	}
	t.served = false
	if w.roll(3) > 0 {
		w.c.TypeWent(w.now, t.APIVersion, t.Kind) // or discovery is late
	}
	if t.APIVersion == "x.io/v1" && w.roll(3) == 0 {
		w.logf("with its objects")
		w.tick()
		w.objects = slices.DeleteFunc(w.objects, func(o *stored) bool { return o.Kind == t.Kind })
		w.streams[t.Kind].pending, w.streams[t.Kind].listed = nil, false
	}
}

// exclude a namespace; what is on its way is answered before, as the gate does it.
func (w *world) exclude(namespace string) {
	for len(w.flight) > 0 {
		w.carryOut(0)
	}
	w.logf("exclude %q", namespace)
	w.excludes = namespace
	w.c.ExcludeNamespaces(w.now, []string{namespace})
}

// user does something to an object, or makes one.
func (w *world) user() {
	var o *stored
	if len(w.objects) > 0 {
		o = w.objects[w.roll(len(w.objects))]
	}
	if o == nil || w.roll(10) < 4 {
		kind := kindNames[w.roll(len(kindNames))]
		namespace := []string{"a", "b"}[w.roll(4)/3]
		var finalizers []string
		switch w.roll(12) {
		case 0:
			finalizers = []string{"other"}
		case 1:
			finalizers = []string{gc.OrphanFinalizer}
		case 2:
			finalizers = []string{"other", gc.ForegroundFinalizer}
		}
		made := w.create(kind, namespace, fmt.Sprint("n", w.roll(6)), w.anyOwners(kind, namespace), finalizers)
		if made != nil {
			w.logf("create %s %s/%s %v %v", kind, made.Namespace, made.Name, made.Owners, finalizers)
		}
		return
	}
	switch w.roll(8) {
	case 0, 1, 2, 3:
		p := []gc.Policy{"", gc.Background, gc.Foreground, gc.Orphan}[w.roll(4)]
		w.logf("user deletes %s %s/%s %s", o.Kind, o.Namespace, o.Name, p)
		w.remove(o, p)
	case 4, 5:
		if o.Terminating {
			w.dropForeign(o)
			return
		}
		w.setOwners(o, w.anyOwners(o.Kind, o.Namespace))
		w.logf("user sets owners of %s %s/%s: %v", o.Kind, o.Namespace, o.Name, o.Owners)
	case 6:
		w.setOwners(o, o.Owners) // changes nothing but the version
	case 7:
		w.dropForeign(o)
	}
}

// anyOwners are references to what there is, more or less.
func (w *world) anyOwners(kind, namespace string) (refs []gc.Reference) {
	for range w.roll(3) {
		if len(w.objects) == 0 {
			return refs
		}
		o := w.objects[w.roll(len(w.objects))]
		if o.Namespace != "" && o.Namespace != namespace && w.roll(4) > 0 {
			continue
		}
		if kind == "Realm" && o.Namespace != "" && w.roll(6) > 0 {
			continue
		}
		r := gc.Reference{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: o.UID, Block: w.roll(2) == 0}
		if slices.ContainsFunc(refs, func(q gc.Reference) bool { return q.UID == r.UID }) {
			continue
		}
		switch w.roll(12) {
		case 0:
			r.Name += "x" // no such thing
		case 1:
			if o.Kind == "Thing" {
				r.APIVersion = "x.io/v1beta1"
			}
		}
		refs = append(refs, r)
	}
	return refs
}
