package preview

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/cascade/preview"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/tools/golden"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var types = []gc.Type{
	{APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespaced: true},
	{APIVersion: "v1", Kind: "PersistentVolumeClaim", Resource: "persistentvolumeclaims", Namespaced: true},
	{APIVersion: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespaced: true},
	{APIVersion: "v1", Kind: "Namespace", Resource: "namespaces"},
	{APIVersion: "v1", Kind: "Node", Resource: "nodes"},
	{APIVersion: "apps/v1", Kind: "Deployment", Resource: "deployments", Namespaced: true},
	{APIVersion: "apps/v1", Kind: "ReplicaSet", Resource: "replicasets", Namespaced: true},
	{APIVersion: "example.io/v1", Kind: "Deployment", Resource: "deployments", Namespaced: true},
	{APIVersion: "example.io/v1", Kind: "Widget", Resource: "widgets", Namespaced: true, Unwatched: true},
	{APIVersion: "example.io/v1", Kind: "Realm", Resource: "realms"},
}

// shop is a small world: a chain of the usual kind, and all that can be odd.
type shop struct{ objects []gc.Object }

func (s *shop) add(apiVersion, kind, name string, owners ...gc.Object) gc.Object {
	o := gc.Object{APIVersion: apiVersion, Kind: kind, Namespace: "shop", Name: name, UID: fmt.Sprintf("uid-%d", len(s.objects)), ResourceVersion: "5"}
	if kind == "Namespace" || kind == "Realm" || kind == "Node" {
		o.Namespace = ""
	}
	for _, r := range owners {
		o.Owners = append(o.Owners, gc.Reference{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, UID: r.UID, Block: true})
	}
	s.objects = append(s.objects, o)
	return o
}

func (s *shop) held(finalizers ...string) { s.objects[len(s.objects)-1].Finalizers = finalizers }

func openShop() *shop {
	s := new(shop)
	s.add("v1", "Namespace", "shop")
	realm := s.add("example.io/v1", "Realm", "eu")
	web := s.add("apps/v1", "Deployment", "web", realm)
	hidden := gc.Object{APIVersion: "example.io/v1", Kind: "Widget", Name: "hidden", UID: "uid-hidden"}
	other := s.add("apps/v1", "Deployment", "api")
	set := s.add("apps/v1", "ReplicaSet", "web-5d9c8", web)
	for i := range 1200 {
		s.add("v1", "Pod", fmt.Sprintf("web-5d9c8-%04d", i), set)
	}
	s.add("v1", "ConfigMap", "shared", web, other)
	s.add("v1", "ConfigMap", "watched", web, hidden)
	claim := s.add("v1", "PersistentVolumeClaim", "data", web)
	s.held("kubernetes.io/pvc-protection")
	s.add("v1", "ConfigMap", "data-index", claim)
	s.add("example.io/v1", "Deployment", "web-rollout", web)
	parting := s.add("v1", "ConfigMap", "parting", web)
	s.held(gc.OrphanFinalizer)
	s.add("v1", "ConfigMap", "left-behind", parting)
	s.add("v1", "Pod", "pod-of-two", web, set)
	s.add("example.io/v1", "Realm", "misplaced", web) // no namespace, and an owner that has one
	return s
}

func TestText(t *testing.T) {
	for _, test := range []struct {
		name, kind, target string
		policy             gc.Policy
		change             func(*Answer)
	}{
		{"background", "Deployment", "web", gc.Background, nil},
		{"foreground", "Deployment", "web", gc.Foreground, nil},
		{"orphan", "Deployment", "web", gc.Orphan, nil},
		{"above", "Realm", "eu", gc.Foreground, nil},
		{"namespace", "Namespace", "shop", gc.Background, nil},
		{"leaf", "ConfigMap", "shared", gc.Background, nil},
		{"incomplete", "ConfigMap", "shared", gc.Background, func(a *Answer) {
			a.Complete, a.Pending = false, 1234
			a.NotSeen = []NotSeen{{"widgets.example.io", reason(errors.New("no answer in time"))}, {"secrets", "not allowed"}, {"services", "not allowed"}}
		}},
		{"excluded", "Deployment", "web", gc.Orphan, func(a *Answer) { a.Excluded = &Excluded{Types: []string{"secrets", "*.example.io"}} }},
		{"nothing excluded", "ConfigMap", "shared", gc.Background, func(a *Answer) { a.Excluded = &Excluded{} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := openShop()
			at := gc.Coordinates{Kind: test.kind, Name: test.target}
			for _, o := range s.objects {
				if o.Kind == test.kind && o.Name == test.target {
					at.APIVersion, at.Namespace = o.APIVersion, o.Namespace
				}
			}
			p, err := preview.Of(preview.World{Types: types, Objects: s.objects}, at, test.policy, preview.Limits{Alike: 3})
			if err != nil {
				t.Fatal(err)
			}
			a := Answer{Preview: p, Complete: true, Objects: len(s.objects), Types: len(types) - 1}
			if test.change != nil {
				test.change(&a)
			}
			var b strings.Builder
			if err := WriteText(&b, a); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, filepath.Join("testdata", test.name+".txt"), b.String())
		})
	}
}

// Nothing of the API server's reaches a terminal that it would obey.
func TestTextIsPrintable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Just("\x1b[2J\r\n\u202e")).Draw(t, "text")
		o := preview.Object{APIVersion: text, Kind: text, Resource: text, Namespace: text, Name: text, UID: "u"}
		n := &preview.Node{Object: o, Outcome: preview.Waiting, Finalizers: []string{text}, HeldBy: []preview.Object{o},
			More: []preview.More{{APIVersion: text, Kind: text, Resource: text, Outcome: preview.Kept, Count: 7}}}
		n.Dependents = []*preview.Node{{Object: o, Outcome: preview.Kept, Reason: cascade.KeptSolidOwner, Owners: []preview.Owner{{Object: o, Judgement: "solid"}}}}
		a := Answer{Preview: preview.Preview{Policy: gc.Background, Root: n, Released: []*preview.Node{n},
			Counts: []preview.Count{{APIVersion: text, Kind: text, Resource: text, Deleted: 1}}, Notes: []preview.Note{{Object: o, Content: 1}}},
			NotSeen: []NotSeen{{text, text}}, Excluded: &Excluded{[]string{text}, []string{text}}}
		a.Policy = gc.Orphan
		var b strings.Builder
		if err := WriteText(&b, a); err != nil {
			t.Fatal(err)
		}
		for _, r := range b.String() {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%q comes out", r)
			}
		}
	})
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
