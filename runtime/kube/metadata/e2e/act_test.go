package e2e

import (
	"net/http"
	"testing"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/tools/peers"
)

func at(typ gc.Type, name, uid string) gc.Coordinates {
	c := gc.Coordinates{APIVersion: typ.APIVersion, Kind: typ.Kind, Resource: typ.Resource, Name: name, UID: uid}
	if typ.Namespaced {
		c.Namespace = "default"
	}
	return c
}

func (b *fixture) read(t *testing.T, typ gc.Type, name string) (gc.Answer, error) {
	t.Helper()
	return b.client.Read(t.Context(), at(typ, name, ""), typ.Namespaced)
}

func (b *fixture) do(t *testing.T, a gc.Action, want gc.Result) *gc.Object {
	t.Helper()
	out := b.client.Do(t.Context(), a, a.Object.Namespace != "")
	if out.Result != want {
		t.Fatalf("%s of %s: %s (%v), want %s", a.Verb, a.Object.Name, out.Result, out.Err, want)
	}
	return out.Object
}

func refs(n int, uid string) (list []any, positions []gc.Position) {
	for i := range n {
		name := "owner-" + string(rune('a'+i))
		list = append(list, object{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid + name, "blockOwnerDeletion": true})
		positions = append(positions, gc.Position{Index: i, Reference: gc.Reference{
			APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: uid + name, Block: true}})
	}
	return list, positions
}

// Every action, on a type of the API server's own and on a custom one.
func TestDo(t *testing.T) {
	b := newFixture(t, peers.Config{})
	b.Define(t, crd("v1"))
	for _, kind := range []struct {
		name string
		typ  gc.Type
		path string
		make func(string, object) object
	}{
		{"built-in", configMaps, mapsPath, configMap},
		{"custom", crontabs, cronPath, cronTab},
	} {
		t.Run(kind.name, func(t *testing.T) {
			list, positions := refs(4, "uid-")
			uid := b.Must(t, http.MethodPost, kind.path, kind.make("x", object{
				"ownerReferences": list, "finalizers": []any{"example.com/a", "example.com/b"}}))
			x := at(kind.typ, "x", uid)
			first, err := b.read(t, kind.typ, "x")
			if err != nil || first.State != gc.Exists || len(first.Object.Owners) != 4 {
				t.Fatalf("read: %+v, %v", first, err)
			}

			other := x
			other.UID = "00000000-0000-0000-0000-000000000000"
			misplaced := []gc.Position{{Index: 1, Reference: positions[0].Reference}}
			beyond := []gc.Position{{Index: 9, Reference: positions[0].Reference}}
			renamed := positions[0]
			renamed.Name = "owner-z"
			for name, a := range map[string]gc.Action{
				"another UID":             {Verb: gc.RemoveReferences, Object: other, Refs: positions[:1]},
				"a reference elsewhere":   {Verb: gc.RemoveReferences, Object: x, Refs: misplaced},
				"no such place":           {Verb: gc.RemoveReferences, Object: x, Refs: beyond},
				"another name":            {Verb: gc.RemoveReferences, Object: x, Refs: []gc.Position{renamed}},
				"unblock elsewhere":       {Verb: gc.Unblock, Object: x, Refs: misplaced},
				"a finalizer elsewhere":   {Verb: gc.RemoveFinalizer, Object: x, Finalizer: "example.com/a", Index: 1},
				"a finalizer not there":   {Verb: gc.RemoveFinalizer, Object: x, Finalizer: "example.com/a", Index: 7},
				"delete of another UID":   {Verb: gc.Delete, Object: other, Policy: gc.Background, ResourceVersion: first.Object.ResourceVersion},
				"delete of what was once": {Verb: gc.Delete, Object: x, Policy: gc.Background, ResourceVersion: "1"},
			} {
				t.Run(name, func(t *testing.T) { b.do(t, a, gc.Conflict) })
			}

			o := b.do(t, gc.Action{Verb: gc.Unblock, Object: x, Refs: positions[1:2]}, gc.Done)
			if o.Owners[1].Block || !o.Owners[2].Block {
				t.Errorf("unblocked: %+v", o.Owners)
			}
			o = b.do(t, gc.Action{Verb: gc.RemoveReferences, Object: x, Refs: []gc.Position{positions[0], positions[2]}}, gc.Done)
			if len(o.Owners) != 2 || o.Owners[0].Name != "owner-b" || o.Owners[1].Name != "owner-d" || o.UID != uid {
				t.Errorf("removed: %+v", o)
			}
			positions[1].Index, positions[3].Index = 0, 1
			o = b.do(t, gc.Action{Verb: gc.RemoveReferences, Object: x, Refs: []gc.Position{positions[1], positions[3]}}, gc.Done)
			if len(o.Owners) != 0 {
				t.Errorf("removed all: %+v", o)
			}
			b.do(t, gc.Action{Verb: gc.Delete, Object: x, Policy: gc.Foreground, ResourceVersion: o.ResourceVersion}, gc.Done)
			now, err := b.read(t, kind.typ, "x")
			if err != nil || !now.Object.Terminating || len(now.Object.Finalizers) != 3 {
				t.Fatalf("deleted foreground: %+v, %v", now, err)
			}
			for i := 2; i >= 0; i-- {
				o = b.do(t, gc.Action{Verb: gc.RemoveFinalizer, Object: x, Finalizer: now.Object.Finalizers[i], Index: i}, gc.Done)
				if len(o.Finalizers) != i {
					t.Errorf("finalizers: %v", o.Finalizers)
				}
			}
			if gone, err := b.read(t, kind.typ, "x"); err != nil || gone.State != gc.Absent {
				t.Fatalf("at the end: %+v, %v", gone, err)
			}
			for _, a := range []gc.Action{
				{Verb: gc.Delete, Object: x, ResourceVersion: "1"}, {Verb: gc.RemoveReferences, Object: x, Refs: positions[:1]},
				{Verb: gc.RemoveFinalizer, Object: x, Finalizer: "a"}} {
				b.do(t, a, gc.Gone)
			}
		})
	}
}
