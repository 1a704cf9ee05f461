package orphans

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/gc"
)

var now = time.Unix(2_000_000_000, 0)

// The types of the world; the last three are not listed.
var (
	configMaps = gc.Type{APIVersion: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespaced: true}
	realms     = gc.Type{APIVersion: "example.io/v1", Kind: "Realm", Resource: "realms"}
	widgets    = gc.Type{APIVersion: "example.io/v1", Kind: "Widget", Resource: "widgets", Namespaced: true}
	oldWidgets = gc.Type{APIVersion: "example.io/v1beta1", Kind: "Widget", Resource: "widgets", Namespaced: true, Unwatched: true}
	secrets    = gc.Type{APIVersion: "v1", Kind: "Secret", Resource: "secrets", Namespaced: true} // forbidden
	gadgets    = gc.Type{APIVersion: "gone.test/v1", Kind: "Gadget", Resource: "gadgets", Namespaced: true}
	dead       = gc.Type{APIVersion: "dead.test/v1", Kind: "Dead", Resource: "deads", Namespaced: true}
	ancient    = gc.Type{APIVersion: "example.io/v1alpha1", Kind: "Widget", Resource: "widgets", Namespaced: true}

	served = []gc.Type{configMaps, realms, widgets, oldWidgets, secrets}
)

// thing is an object of the world, and when it was deleted.
type thing struct {
	gc.Object
	t  gc.Type
	at time.Time
}

func anyWorld(t *rapid.T) (world []*thing) {
	for i := range rapid.IntRange(1, 9).Draw(t, "objects") {
		ty := rapid.SampledFrom([]gc.Type{configMaps, realms, widgets, secrets}).Draw(t, "type")
		x := &thing{t: ty, Object: gc.Object{APIVersion: ty.APIVersion, Kind: ty.Kind, UID: fmt.Sprintf("uid-%d", i), ResourceVersion: "7",
			Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")}}
		if ty.Namespaced {
			x.Namespace = rapid.SampledFrom([]string{"one", "two"}).Draw(t, "namespace")
		}
		if slices.ContainsFunc(world, func(o *thing) bool { return o.t == ty && o.Namespace == x.Namespace && o.Name == x.Name }) {
			continue
		}
		if rapid.IntRange(0, 3).Draw(t, "deleted") == 0 {
			x.Terminating, x.at = true, now.Add(-time.Duration(rapid.IntRange(0, 20).Draw(t, "minutes"))*time.Minute)
		}
		x.Finalizers = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{gc.ForegroundFinalizer, "example.io/x", "lost.test/y", "bare"}), 0, 2, rapid.ID).Draw(t, "finalizers")
		world = append(world, x)
	}
	for _, x := range world {
		for range rapid.IntRange(0, 2).Draw(t, "owners") {
			o := rapid.SampledFrom(world).Draw(t, "owner")
			r := gc.Reference{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: o.UID, Block: rapid.Bool().Draw(t, "block")}
			switch rapid.IntRange(0, 6).Draw(t, "flaw") {
			case 0:
				r.UID = "uid-of-before"
			case 1:
				r.Name = "nobody"
			case 2:
				other := rapid.SampledFrom([]gc.Type{oldWidgets, gadgets, dead, ancient, realms}).Draw(t, "other type")
				r.APIVersion, r.Kind = other.APIVersion, other.Kind
			}
			x.Owners = append(x.Owners, r)
		}
	}
	return world
}

// look gives an Inspection all of a world, in a random order.
func look(t *rapid.T, world []*thing, c Config) *Inspection {
	l := New(c)
	l.Types(served, map[string]string{dead.APIVersion: "stale"})
	for _, ty := range rapid.Permutation(served).Draw(t, "order") {
		if ty.Unwatched {
			continue
		}
		if ty == secrets {
			l.Listing(ty)
			l.Unreadable(ty, "forbidden")
			continue
		}
		for range rapid.IntRange(1, 2).Draw(t, "lists") { // one may break off, and begin anew
			l.Listing(ty)
			for _, x := range rapid.Permutation(world).Draw(t, "order of objects") {
				if x.t == ty {
					l.Observe(x.Object, x.at)
				}
			}
		}
		l.Synced(ty)
	}
	for questions := l.Questions(); len(questions) > 0; questions = l.Questions() {
		for _, q := range questions {
			l.Answer(q.ID, read(world, q.Object), "forbidden")
		}
	}
	return l
}

func read(world []*thing, o gc.Coordinates) gc.Answer {
	if o.Kind == "Secret" {
		return gc.Answer{}
	}
	for _, x := range world {
		if gc.GroupOf(x.APIVersion) == gc.GroupOf(o.APIVersion) && x.Kind == o.Kind && x.Namespace == o.Namespace && x.Name == o.Name {
			found := x.Object
			found.APIVersion = o.APIVersion
			return gc.Answer{State: gc.Exists, Object: found}
		}
	}
	return gc.Answer{State: gc.Absent}
}

// oracle judges a reference by looking at the whole world.
func oracle(world []*thing, d *thing, r gc.Reference) gc.Reason {
	var ty *gc.Type
	for i := range served {
		if served[i].APIVersion == r.APIVersion && served[i].Kind == r.Kind {
			ty = &served[i]
		}
	}
	var bearer *thing // of the UID, as far as anybody can see
	for _, x := range world {
		if x.UID == r.UID && x.t != secrets {
			bearer = x
		}
	}
	same := bearer != nil && bearer.Kind == r.Kind && bearer.Name == r.Name && gc.GroupOf(bearer.APIVersion) == gc.GroupOf(r.APIVersion)
	switch {
	case ty == nil && r.APIVersion == dead.APIVersion:
		return OwnerUnknown
	case ty == nil && same && (bearer.Namespace == d.Namespace || bearer.Namespace == ""):
		return OwnerVersionNotServed
	case ty == nil:
		return OwnerTypeNotServed
	case d.Namespace == "" && ty.Namespaced:
		return OwnerNamespaced
	case *ty == secrets:
		return OwnerUnknown
	case same && (bearer.Namespace == d.Namespace || bearer.Namespace == ""):
		return ""
	case same:
		return OwnerElsewhere
	case bearer != nil:
		return OwnerIsAnother
	}
	for _, x := range world {
		if x.Kind == r.Kind && gc.GroupOf(x.APIVersion) == gc.GroupOf(r.APIVersion) && x.Name == r.Name && (x.Namespace == d.Namespace || x.Namespace == "") {
			return OwnerReplaced
		}
	}
	return OwnerAbsent
}

// oracleHeld returns why a deleted object is still there because of one finalizer.
func oracleHeld(world []*thing, o *thing, finalizer string) gc.Reason {
	switch finalizer {
	case "example.io/x":
		return HeldByFinalizer
	case "lost.test/y":
		if o.t == configMaps {
			return HeldByUnserved
		}
		return HeldByUnknown
	case "bare":
		if o.t == configMaps {
			return HeldByUnknown
		}
		return HeldByFinalizer
	}
	for _, d := range world {
		for _, r := range d.Owners {
			if d.t != secrets && d != o && r.Block && r.UID == o.UID && r.Kind == o.Kind && r.Name == o.Name && gc.GroupOf(r.APIVersion) == gc.GroupOf(o.APIVersion) &&
				(d.Namespace == o.Namespace || o.Namespace == "") {
				return HeldByDependents
			}
		}
	}
	return HeldForCollector
}

// The findings for any world are those of a look at all of it, whatever the order in
// which it was observed.
func TestFindings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world := anyWorld(t)
		c := Config{OlderThan: 10 * time.Minute, History: 10, Namespace: rapid.SampledFrom([]string{"", "one"}).Draw(t, "of")}
		var want []string
		expect := func(r gc.Reason, x *thing, by string) {
			if r != "" && (c.Namespace == "" || x.Namespace == c.Namespace) {
				want = append(want, fmt.Sprint(r, " ", x.UID, " ", by))
			}
		}
		stays := map[bool]int{} // as the controller's metric counts: because of a namespace, or of a type
		for _, x := range world {
			if x.t == secrets {
				continue
			}
			old := x.Terminating && !x.at.After(now.Add(-c.OlderThan))
			for at, f := range x.Finalizers {
				if old {
					expect(oracleHeld(world, x, f), x, fmt.Sprint(at))
				}
			}
			if old && len(x.Finalizers) == 0 {
				expect(HeldByNothing, x, "")
			}
			for at, r := range x.Owners {
				if x.Terminating {
					continue
				}
				reason, by := oracle(world, x, r), fmt.Sprint(at)
				if reason == OwnerNamespaced || reason == OwnerTypeNotServed || r.APIVersion == dead.APIVersion {
					stays[reason == OwnerNamespaced]++
				}
				if reason == OwnerUnknown { // its command names no place
					by = named(gc.Coordinates{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name}, "")
				}
				expect(reason, x, by)
			}
		}
		var got []string
		l := look(t, world, c)
		if types, namespaces := l.graph.Unresolved(); types != stays[false] || namespaces != stays[true] {
			t.Fatalf("%d and %d references stay unresolved, want %v", types, namespaces, stays)
		}
		for _, f := range l.Findings(now) {
			got = append(got, fmt.Sprint(f.Reason, " ", f.Object.UID, " ", place(t, world, f)))
			sound(t, f)
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

var position = regexp.MustCompile(`/metadata/(?:ownerReferences|finalizers)/(\d+)[^}]*}]$`)

// place is the index that a finding's command is about, or that what it names stands at.
func place(t *rapid.T, world []*thing, f Finding) string {
	switch f.Reason {
	case HeldByNothing:
		return ""
	case OwnerUnknown:
		return f.By
	}
	if !f.Looks {
		return position.FindStringSubmatch(f.Command[len(f.Command)-1])[1]
	}
	for _, x := range world {
		if x.UID != f.Object.UID {
			continue
		}
		for at, name := range x.Finalizers {
			if name == f.By || f.Reason == HeldByDependents && name == gc.ForegroundFinalizer {
				return fmt.Sprint(at)
			}
		}
	}
	t.Fatalf("whose is %+v?", f)
	return ""
}

// sound: no command about owners or holders deletes, and each that changes tests what it
// changes, and of which object.
func sound(t *rapid.T, f Finding) {
	if len(f.Command) == 0 && f.Reason != OwnerUnknown {
		t.Fatalf("no command: %+v", f)
	}
	if f.Looks != (len(f.Command) == 0 || f.Command[0] == "get") {
		t.Fatalf("%v looks: %v", f.Command, f.Looks)
	}
	if f.Looks {
		return
	}
	patch := f.Command[len(f.Command)-1]
	if f.Command[0] != "patch" || !strings.Contains(patch, `"path":"/metadata/uid","value":"`+f.Object.UID+`"`) || strings.Count(patch, `"op":"test"`) != 2 {
		t.Fatalf("%q", f.Command)
	}
}
