package preview

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
)

var types = []gc.Type{
	{APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespaced: true},
	{APIVersion: "v1", Kind: "Namespace", Resource: "namespaces"},
	{APIVersion: "apps/v1", Kind: "Set", Resource: "sets", Namespaced: true},
	{APIVersion: "x.io/v1", Kind: "Thing", Resource: "things", Namespaced: true},
	{APIVersion: "x.io/v1beta1", Kind: "Thing", Resource: "things", Namespaced: true, Unwatched: true},
	{APIVersion: "secret.io/v1", Kind: "Hidden", Resource: "hiddens", Namespaced: true, Unwatched: true},
	{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Resource: "customresourcedefinitions"},
}

func made(apiVersion, kind, name string, owners ...gc.Reference) gc.Object {
	o := gc.Object{APIVersion: apiVersion, Kind: kind, Namespace: "a", Name: name, UID: "uid-" + name, ResourceVersion: "7", Owners: owners}
	if kind == "Namespace" || kind == "CustomResourceDefinition" {
		o.Namespace = ""
	}
	return o
}

func by(o gc.Object) gc.Reference {
	return gc.Reference{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: o.UID, Block: true}
}

func at(o gc.Object) gc.Coordinates {
	return gc.Coordinates{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

func of(t *testing.T, w World, target gc.Object, policy gc.Policy, limits Limits) Preview {
	t.Helper()
	w.Types = types
	p, err := Of(w, at(target), policy, limits)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRefusals(t *testing.T) {
	root := made("apps/v1", "Set", "root")
	lost := made("v1", "Pod", "lost", by(made("apps/v1", "Set", "gone")))
	other := at(root)
	other.UID = "uid-other"
	for _, test := range []struct {
		target gc.Coordinates
		policy gc.Policy
		want   error
	}{
		{at(root), "", ErrPolicy},
		{at(root), "Sideways", ErrPolicy},
		{at(made("v1", "Pod", "root")), gc.Background, ErrNotThere},
		{other, gc.Background, ErrNotThere},
		{at(lost), gc.Background, ErrPending},
		{at(root), gc.Background, nil},
	} {
		_, err := Of(World{Types: types, Objects: []gc.Object{root, lost}}, test.target, test.policy, Limits{})
		if !errors.Is(err, test.want) {
			t.Errorf("%+v %s: %v, want %v", test.target, test.policy, err, test.want)
		}
	}
}

// The tree is bounded, and the counts are of everything.
func TestBounds(t *testing.T) {
	root := made("apps/v1", "Set", "root")
	objects := []gc.Object{root}
	for i := range 5000 {
		pod := made("v1", "Pod", fmt.Sprint("pod-", i), by(root))
		if i == 3000 {
			pod.Finalizers = []string{"other"}
		}
		objects = append(objects, pod, made("x.io/v1", "Thing", fmt.Sprint("thing-", i), by(pod)))
	}
	p := of(t, World{Objects: objects}, root, gc.Background, Limits{Nodes: 100, Alike: 4})
	if n := len(p.Root.Dependents); n != 5 { // four that go, and the one that waits
		t.Errorf("%d dependents", n)
	}
	want := []More{{"v1", "Pod", "pods", Deleted, "", 4995}}
	if !slices.Equal(p.Root.More, want) {
		t.Errorf("more: %+v, want %+v", p.Root.More, want)
	}
	counts := []Count{{"v1", "Pod", "pods", 4999, 0, 0, 1}, {"apps/v1", "Set", "sets", 1, 0, 0, 0}, {"x.io/v1", "Thing", "things", 4999, 0, 1, 0}}
	if !slices.Equal(p.Counts, counts) {
		t.Errorf("counts: %+v, want %+v", p.Counts, counts)
	}
}

func TestDepthIsBounded(t *testing.T) {
	above := made("apps/v1", "Set", "root")
	root, objects := above, []gc.Object{above}
	for i := range 3000 {
		above = made("x.io/v1", "Thing", fmt.Sprint("t", i), by(above))
		objects = append(objects, above)
	}
	for _, policy := range []gc.Policy{gc.Background, gc.Foreground} {
		p := of(t, World{Objects: objects}, root, policy, Limits{Depth: 7})
		depth := 0
		for n := p.Root; len(n.Dependents) > 0; n = n.Dependents[0] {
			depth++
		}
		if depth != 7 || p.Counts[1].Deleted != 3000 {
			t.Errorf("%s: depth %d, %+v", policy, depth, p.Counts)
		}
	}
}

// A preview that lacks an owner asks for it, and uses the answer.
func TestQuestions(t *testing.T) {
	root := made("apps/v1", "Set", "root")
	late := made("x.io/v1", "Thing", "late")
	hidden := made("secret.io/v1", "Hidden", "hidden")
	shared := made("v1", "Pod", "shared", by(root), by(late))
	veiled := made("v1", "Pod", "veiled", by(root), by(hidden))
	w := World{Objects: []gc.Object{root, shared, veiled}}
	outcomes := func(p Preview) (list []Outcome) {
		for _, n := range p.Root.Dependents {
			list = append(list, n.Outcome)
		}
		return list
	}
	p := of(t, w, root, gc.Background, Limits{})
	if got := outcomes(p); !slices.Equal(got, []Outcome{Deleted, Kept}) {
		t.Errorf("%v: what was listed and is not there is absent; what was not listed is unknown", got)
	}
	w.Known = make(map[gc.Coordinates]gc.Answer)
	for _, q := range p.Asked {
		if !q.Namespaced || q.Resource == "" {
			t.Errorf("%+v cannot be asked", q)
		}
		q.Coordinates.Resource = ""
		w.Known[q.Coordinates] = map[string]gc.Answer{"late": {State: gc.Exists, Object: late}, "hidden": {State: gc.Absent}}[q.Name]
	}
	if len(w.Known) != 2 {
		t.Fatalf("asked %+v", p.Asked)
	}
	p = of(t, w, root, gc.Background, Limits{})
	if got := outcomes(p); !slices.Equal(got, []Outcome{Kept, Deleted}) || len(p.Asked) > 0 {
		t.Errorf("%v, asked %v", got, p.Asked)
	}
}

func TestTakenAlong(t *testing.T) {
	namespace := made("v1", "Namespace", "a")
	crd := made("apiextensions.k8s.io/v1", "CustomResourceDefinition", "things.x.io", by(namespace))
	objects := []gc.Object{namespace, crd, made("v1", "Pod", "p"), made("x.io/v1", "Thing", "t")}
	p := of(t, World{Objects: objects}, namespace, gc.Background, Limits{})
	if len(p.Notes) != 2 || p.Notes[0].Content != 2 || p.Notes[1].Content != 1 {
		t.Errorf("%+v", p.Notes)
	}
}

// An excluded dependent stays, and is reported as such.
func TestExcluded(t *testing.T) {
	root := made("apps/v1", "Set", "root")
	w := World{Objects: []gc.Object{root, made("v1", "Pod", "p", by(root))}, ExcludedNamespaces: []string{"a"}}
	p := of(t, w, root, gc.Background, Limits{})
	if d := p.Root.Dependents[0]; d.Outcome != Kept || d.Reason != cascade.KeptExcluded {
		t.Errorf("%+v", d)
	}
}

// However the world looks: an object is counted once, the tree keeps its bounds, and
// what it shows is what it counts if nothing is left out.
func TestTreeAndCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var objects []gc.Object
		for i := range rapid.IntRange(1, 30).Draw(t, "objects") {
			var owners []gc.Reference
			for range rapid.IntRange(0, 2).Draw(t, "owners") {
				if i > 0 {
					owners = append(owners, by(objects[rapid.IntRange(0, i-1).Draw(t, "owner")]))
				}
			}
			o := made("x.io/v1", "Thing", fmt.Sprint("n", i), owners...)
			if rapid.IntRange(0, 4).Draw(t, "held") == 0 {
				o.Finalizers = []string{"other"}
			}
			objects = append(objects, o)
		}
		w := World{Types: types, Objects: objects}
		policy := rapid.SampledFrom([]gc.Policy{gc.Background, gc.Foreground, gc.Orphan}).Draw(t, "policy")
		limits := Limits{Nodes: rapid.IntRange(1, 40).Draw(t, "nodes"), Alike: rapid.IntRange(1, 40).Draw(t, "alike")}
		all, err := Of(w, at(objects[0]), policy, Limits{Alike: 100})
		if err != nil {
			t.Fatal(err)
		}
		some, err := Of(w, at(objects[0]), policy, limits)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(all.Counts, some.Counts) {
			t.Errorf("the limits change the counts: %+v, %+v", all.Counts, some.Counts)
		}
		shown := make(map[string]Outcome)
		total := 0
		for _, c := range all.Counts {
			total += c.Deleted + c.Orphaned + c.Kept + c.Waiting
		}
		if show(all.Root, shown); len(shown) != total {
			t.Errorf("%d objects shown, %d counted", len(shown), total)
		}
		clear(shown)
		if show(some.Root, shown); len(shown) > limits.Nodes {
			t.Errorf("%d objects shown, at most %d wanted", len(shown), limits.Nodes)
		}
	})
}

func show(n *Node, into map[string]Outcome) {
	into[n.UID] = n.Outcome
	for _, d := range n.Dependents {
		show(d, into)
	}
}

// BenchmarkOf previews the deletion of an owner of 5,000 among 100,000 objects.
func BenchmarkOf(b *testing.B) {
	root := made("apps/v1", "Set", "root")
	objects := []gc.Object{root}
	for i := range 100_000 {
		pod := made("v1", "Pod", fmt.Sprint("pod-", i))
		if i < 5000 {
			pod.Owners = []gc.Reference{by(root)}
		}
		objects = append(objects, pod)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Of(World{Types: types, Objects: objects}, at(root), gc.Foreground, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
