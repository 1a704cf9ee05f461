package cascade_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/cascade/preview"
	"github.com/ebb-agent/ebb/policy/gc"
)

func worldOf(types []gc.Type, p cascade.Part) preview.World {
	w := preview.World{Types: types, Objects: p.Objects, Known: make(map[gc.Coordinates]gc.Answer), Orphaned: p.Orphaned}
	for _, o := range p.Absent {
		w.Known[o] = gc.Answer{State: gc.Absent}
	}
	return w
}

// A part of the graph gives the very preview that all of it does, also in the middle
// of things: while others are being deleted, types are being listed and events are late.
func TestPartIsEnough(t *testing.T) {
	smaller, seen, unsure := 0, 0, 0
	for seed := range uint64(3000) {
		s := cascade.Busy(seed, int(seed%90))
		types, all := s.Graph()
		if len(all.Objects) == 0 {
			continue
		}
		target := all.Objects[s.Roll(len(all.Objects))]
		policy := []gc.Policy{gc.Background, gc.Foreground, gc.Orphan}[s.Roll(3)]
		at := coordinates(target)
		if seed%2 == 0 {
			at.UID = ""
		}
		part, err := s.Collector().Part(at, len(all.Objects))
		if err != nil {
			t.Fatalf("world %d: %v", seed, err)
		}
		want, wantErr := preview.Of(worldOf(types, all), at, policy, unbounded)
		got, err := preview.Of(worldOf(types, part), at, policy, unbounded)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) && twoOf(all, target) {
			unsure++ // another has its name already: only one stands in that place
			continue
		} else if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("world %d: %v, of all: %v", seed, err, wantErr)
		}
		for _, p := range []*preview.Preview{&got, &want} {
			p.Pending, p.Asked, p.Notes = 0, nil, nil // of all, for all
			slices.SortFunc(p.Released, func(a, b *preview.Node) int { return cmpNames(a, b) })
		}
		if diff := cmp.Diff(want, got); diff != "" && asksFor(all, part) {
			unsure++ // who else refers to an owner that nobody knows has it asked about
		} else if diff != "" {
			t.Fatalf("world %d, %s %s/%s %s (-all +part):\n%s\nall %+v\npart %+v", seed, target.Kind, target.Namespace, target.Name, policy, diff, all, part)
		}
		seen++
		if len(part.Objects) < len(all.Objects) {
			smaller++
		}
	}
	if seen < 1000 || smaller < seen/2 || unsure > seen/500 {
		t.Errorf("%d worlds, in %d of them the part is smaller, in %d unsure", seen, smaller, unsure)
	}
}

// twoOf says whether the graph has another object of the same name, too.
func twoOf(all cascade.Part, o gc.Object) bool {
	return slices.ContainsFunc(all.Objects, func(p gc.Object) bool {
		return p.Kind == o.Kind && p.Namespace == o.Namespace && p.Name == o.Name && p.UID != o.UID
	})
}

// asksFor says whether objects that are not in the part refer to an owner of one that
// is, and this owner was neither seen nor proven absent.
func asksFor(all, part cascade.Part) bool {
	known, inside := map[string]bool{}, map[string]bool{}
	for _, o := range all.Objects {
		known[o.UID] = true
	}
	for _, o := range all.Absent {
		known[o.UID] = true
	}
	asked := map[string]bool{}
	for _, o := range part.Objects {
		inside[o.UID] = true
		for _, r := range o.Owners {
			asked[r.UID] = !known[r.UID]
		}
	}
	return slices.ContainsFunc(all.Objects, func(o gc.Object) bool {
		return !inside[o.UID] && slices.ContainsFunc(o.Owners, func(r gc.Reference) bool { return asked[r.UID] })
	})
}

func cmpNames(a, b *preview.Node) int {
	return slices.Compare([]string{a.Kind, a.UID}, []string{b.Kind, b.UID})
}

// feed a collector.
func fed(objects ...gc.Object) *cascade.Collector {
	c := cascade.New(cascade.Config{})
	c.TypeCame(noon, gc.Type{APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespaced: true})
	for _, o := range objects {
		c.Observe(noon, o)
	}
	c.Synced(noon, "v1", "Pod")
	return c
}

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func pod(name string, owners ...string) gc.Object {
	o := gc.Object{APIVersion: "v1", Kind: "Pod", Namespace: "a", Name: name, UID: "uid-" + name, ResourceVersion: "7"}
	for _, owner := range owners {
		o.Owners = append(o.Owners, gc.Reference{APIVersion: "v1", Kind: "Pod", Name: owner, UID: "uid-" + owner, Block: true})
	}
	return o
}

func waits(o gc.Object, finalizers ...string) gc.Object {
	o.Terminating, o.Finalizers = true, finalizers
	return o
}

// What a part has, and what it leaves out.
func TestPart(t *testing.T) {
	waiting := waits(pod("waiting"), gc.ForegroundFinalizer)
	held := waits(pod("held", "waiting"), "example.com/hold")
	for _, test := range []struct {
		name    string
		objects []gc.Object
		want    string
	}{
		{"what depends on it, and owners of that, and theirs",
			[]gc.Object{pod("root"), pod("below", "root"), pod("shared", "below", "other"), pod("other", "top"), pod("top"), pod("far")},
			"below other root shared top"},
		{"not what depends on an owner that stays", []gc.Object{pod("root", "top"), pod("top"), pod("beside", "top")}, "root top"},
		{"what depends on an owner that waits", []gc.Object{pod("root"), pod("both", "root", "waiting"), waiting, held}, "both held root waiting"},
		{"what depends on an owner that nothing keeps", []gc.Object{pod("root", "lost"), pod("lost", "gone"), pod("too", "lost")}, "lost root too"},
		{"owners of each other stay", []gc.Object{pod("root", "x"), pod("x", "y"), pod("y", "x"), pod("beside", "y")}, "root x y"},
	} {
		var names []string
		p, err := fed(test.objects...).Part(coordinates(test.objects[0]), 100)
		for _, o := range p.Objects {
			names = append(names, o.Name)
			i := slices.IndexFunc(test.objects, func(q gc.Object) bool { return q.UID == o.UID })
			want := test.objects[i]
			if want.Name == "held" {
				want.Finalizers = []string{cascade.OtherFinalizer}
			}
			if diff := cmp.Diff(want, o, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: %s", test.name, diff)
			}
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != test.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", test.name, got, err, test.want)
		}
	}
	c := fed(pod("root"), pod("a", "root"), pod("b", "root", "gone"))
	c.Forget(noon, pod("gone"))
	if p, err := c.Part(coordinates(pod("root")), 100); len(p.Absent) != 1 || p.Absent[0] != coordinates(pod("gone")) || err != nil {
		t.Errorf("absent: %v, %v", p.Absent, err)
	}
	if _, err := c.Part(coordinates(pod("root")), 2); !errors.Is(err, cascade.ErrTooMany) {
		t.Errorf("more than most: %v", err)
	}
	for _, o := range []gc.Object{pod("gone"), pod("none")} {
		if _, err := c.Part(coordinates(o), 2); !errors.Is(err, cascade.ErrNoObject) {
			t.Errorf("%s: %v", o.Name, err)
		}
	}
	namespaces, types := c.Census()
	if namespaces["a"] != 3 || len(namespaces) != 1 || types[gc.Type{APIVersion: "v1", Kind: "Pod", Resource: "pods"}] != 3 {
		t.Errorf("census: %v, %v", namespaces, types)
	}
	c.Unreadable(noon, "v1", "Pod")
	if _, err := c.Part(coordinates(pod("root")), 100); !errors.Is(err, cascade.ErrNoObject) {
		t.Errorf("of a type that cannot be read: %v", err)
	}
}
