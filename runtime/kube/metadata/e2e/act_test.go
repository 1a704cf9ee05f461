package e2e

import (
	"net/http"
	"testing"

	"github.com/ebb-agent/ebb/policy/cascade"
)

func at(typ cascade.Type, name, uid string) cascade.Coordinates {
	c := cascade.Coordinates{APIVersion: typ.APIVersion, Kind: typ.Kind, Resource: typ.Resource, Name: name, UID: uid}
	if typ.Namespaced {
		c.Namespace = "default"
	}
	return c
}

func (b *bed) read(t *testing.T, typ cascade.Type, name string) (cascade.Answer, error) {
	t.Helper()
	return b.client.Read(t.Context(), at(typ, name, ""), typ.Namespaced)
}

func (b *bed) do(t *testing.T, a cascade.Action, want cascade.Result) *cascade.Object {
	t.Helper()
	out := b.client.Do(t.Context(), a, a.Object.Namespace != "")
	if out.Result != want {
		t.Fatalf("%s of %s: %s (%v), want %s", a.Verb, a.Object.Name, out.Result, out.Err, want)
	}
	return out.Object
}

func refs(n int, uid string) (list []any, positions []cascade.Position) {
	for i := range n {
		name := "owner-" + string(rune('a'+i))
		list = append(list, object{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid + name, "blockOwnerDeletion": true})
		positions = append(positions, cascade.Position{Index: i, Reference: cascade.Reference{
			APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: uid + name, Block: true}})
	}
	return list, positions
}

// Every action, on a type of the API server's own and on a custom one.
func TestDo(t *testing.T) {
	b := newBed(t)
	b.define(t, crd("v1"))
	for _, kind := range []struct {
		name string
		typ  cascade.Type
		path string
		make func(string, object) object
	}{
		{"built-in", configMaps, mapsPath, configMap},
		{"custom", crontabs, cronPath, cronTab},
	} {
		t.Run(kind.name, func(t *testing.T) {
			list, positions := refs(4, "uid-")
			uid := b.must(t, http.MethodPost, kind.path, kind.make("x", object{
				"ownerReferences": list, "finalizers": []any{"example.com/a", "example.com/b"}}))
			x := at(kind.typ, "x", uid)
			first, err := b.read(t, kind.typ, "x")
			if err != nil || first.State != cascade.Exists || len(first.Object.Owners) != 4 {
				t.Fatalf("read: %+v, %v", first, err)
			}

			other := x
			other.UID = "00000000-0000-0000-0000-000000000000"
			misplaced := []cascade.Position{{Index: 1, Reference: positions[0].Reference}}
			beyond := []cascade.Position{{Index: 9, Reference: positions[0].Reference}}
			renamed := positions[0]
			renamed.Name = "owner-z"
			for name, a := range map[string]cascade.Action{
				"another UID":             {Verb: cascade.RemoveReferences, Object: other, Refs: positions[:1]},
				"a reference elsewhere":   {Verb: cascade.RemoveReferences, Object: x, Refs: misplaced},
				"no such place":           {Verb: cascade.RemoveReferences, Object: x, Refs: beyond},
				"another name":            {Verb: cascade.RemoveReferences, Object: x, Refs: []cascade.Position{renamed}},
				"unblock elsewhere":       {Verb: cascade.Unblock, Object: x, Refs: misplaced},
				"a finalizer elsewhere":   {Verb: cascade.RemoveFinalizer, Object: x, Finalizer: "example.com/a", Index: 1},
				"a finalizer not there":   {Verb: cascade.RemoveFinalizer, Object: x, Finalizer: "example.com/a", Index: 7},
				"delete of another UID":   {Verb: cascade.Delete, Object: other, Policy: cascade.Background, ResourceVersion: first.Object.ResourceVersion},
				"delete of what was once": {Verb: cascade.Delete, Object: x, Policy: cascade.Background, ResourceVersion: "1"},
			} {
				t.Run(name, func(t *testing.T) { b.do(t, a, cascade.Conflict) })
			}

			o := b.do(t, cascade.Action{Verb: cascade.Unblock, Object: x, Refs: positions[1:2]}, cascade.Done)
			if o.Owners[1].Block || !o.Owners[2].Block {
				t.Errorf("unblocked: %+v", o.Owners)
			}
			o = b.do(t, cascade.Action{Verb: cascade.RemoveReferences, Object: x, Refs: []cascade.Position{positions[0], positions[2]}}, cascade.Done)
			if len(o.Owners) != 2 || o.Owners[0].Name != "owner-b" || o.Owners[1].Name != "owner-d" || o.UID != uid {
				t.Errorf("removed: %+v", o)
			}
			positions[1].Index, positions[3].Index = 0, 1
			o = b.do(t, cascade.Action{Verb: cascade.RemoveReferences, Object: x, Refs: []cascade.Position{positions[1], positions[3]}}, cascade.Done)
			if len(o.Owners) != 0 {
				t.Errorf("removed all: %+v", o)
			}
			b.do(t, cascade.Action{Verb: cascade.Delete, Object: x, Policy: cascade.Foreground, ResourceVersion: o.ResourceVersion}, cascade.Done)
			now, err := b.read(t, kind.typ, "x")
			if err != nil || !now.Object.Terminating || len(now.Object.Finalizers) != 3 {
				t.Fatalf("deleted foreground: %+v, %v", now, err)
			}
			for i := 2; i >= 0; i-- {
				o = b.do(t, cascade.Action{Verb: cascade.RemoveFinalizer, Object: x, Finalizer: now.Object.Finalizers[i], Index: i}, cascade.Done)
				if len(o.Finalizers) != i {
					t.Errorf("finalizers: %v", o.Finalizers)
				}
			}
			if gone, err := b.read(t, kind.typ, "x"); err != nil || gone.State != cascade.Absent {
				t.Fatalf("at the end: %+v, %v", gone, err)
			}
			for _, a := range []cascade.Action{
				{Verb: cascade.Delete, Object: x, ResourceVersion: "1"}, {Verb: cascade.RemoveReferences, Object: x, Refs: positions[:1]},
				{Verb: cascade.RemoveFinalizer, Object: x, Finalizer: "a"}} {
				b.do(t, a, cascade.Gone)
			}
		})
	}
}
