package e2e

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/tools/peers"
)

func TestFollow(t *testing.T) {
	b := newFixture(t, peers.Config{})
	b.Define(t, crd("v1"))
	root := b.Must(t, http.MethodPost, mapsPath, configMap("root", nil))
	for _, test := range []struct {
		name string
		typ  gc.Type
		path string
		make func(string, object) object
	}{
		{"built-in", configMaps, mapsPath, configMap},
		{"custom", crontabs, cronPath, cronTab},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := b.Must(t, http.MethodPost, test.path, test.make("before", object{
				"finalizers":      []any{"example.com/hold"},
				"ownerReferences": []any{object{"apiVersion": "v1", "kind": "ConfigMap", "name": "root", "uid": root, "blockOwnerDeletion": true}}}))
			s := follow(t, b.client, test.typ)
			s.until(t, "the list", isSynced)
			got, ok := s.get(before)
			if !ok {
				t.Fatal("an object that was there is not in the list")
			}
			want := gc.Object{APIVersion: test.typ.APIVersion, Kind: test.typ.Kind, Namespace: "default", Name: "before", UID: before,
				ResourceVersion: got.ResourceVersion, Finalizers: []string{"example.com/hold"},
				Owners: []gc.Reference{{APIVersion: "v1", Kind: "ConfigMap", Name: "root", UID: root, Block: true}}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("listed object: %s", diff)
			}

			after := b.Must(t, http.MethodPost, test.path, test.make("after", nil))
			s.until(t, "a new object", has(after))
			b.Must(t, http.MethodDelete, test.path+"/after", nil)
			s.until(t, "its deletion", func(s *seen) bool { return s.deleted[after] })

			for policy, finalizer := range map[string]string{"Foreground": gc.ForegroundFinalizer, "Orphan": gc.OrphanFinalizer} {
				uid := b.Must(t, http.MethodPost, test.path, test.make("owner-"+string(policy[0]+32), nil))
				b.Must(t, http.MethodDelete, test.path+"/owner-"+string(policy[0]+32), object{"propagationPolicy": policy})
				s.until(t, policy, func(s *seen) bool {
					o := s.objects[uid]
					return o.Terminating && len(o.Finalizers) == 1 && o.Finalizers[0] == finalizer
				})
			}
			if n := s.count(metadata.Unreadable); n != 0 {
				t.Errorf("%d times unreadable: %v", n, s.last)
			}
		})
	}
}

func TestDiscover(t *testing.T) {
	b := newFixture(t, peers.Config{})
	b.Define(t, crd("v1", "v2", "v3!"))
	d, err := b.client.Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d.Unsure != nil || len(d.Partial) != 0 {
		t.Errorf("unsure %v, partial %v", d.Unsure, d.Partial)
	}
	byName := map[string]gc.Type{}
	for _, typ := range d.Types {
		byName[typ.APIVersion+" "+typ.Resource] = typ
	}
	v2 := gc.Type{APIVersion: "example.com/v2", Kind: "CronTab", Resource: "crontabs", Namespaced: true}
	v1 := v2
	v1.APIVersion, v1.Unwatched = "example.com/v1", true
	for _, want := range []gc.Type{configMaps, namespaces, v2, v1} {
		if diff := cmp.Diff(want, byName[want.APIVersion+" "+want.Resource]); diff != "" {
			t.Errorf("%s %s: %s", want.APIVersion, want.Resource, diff)
		}
	}
	for _, name := range []string{"v1 events", "events.k8s.io/v1 events", "example.com/v3 crontabs", "v1 pods/status", "v1 bindings"} {
		if typ, ok := byName[name]; ok {
			t.Errorf("%s is among the types: %+v", name, typ)
		}
	}
}

// TestFollowWhole: whole objects are listed and watched, and what is not in their
// metadata is reported with them. One that cannot be read makes its type unreadable.
func TestFollowWhole(t *testing.T) {
	b := newFixture(t, peers.Config{})
	withData := func(name, value string) object {
		o := configMap(name, nil)
		o["data"] = object{"key": value}
		return o
	}
	data := func(message []byte) (any, error) {
		var m corev1.ConfigMap
		if err := m.Unmarshal(message); err != nil {
			return nil, err
		}
		if m.Data["key"] == "broken" {
			return nil, errors.New("a value that is not understood")
		}
		return m.Data["key"], nil
	}
	before := b.Must(t, http.MethodPost, mapsPath, withData("before", "one"))
	s := followWhole(t, b.client, configMaps, data)
	s.until(t, "the list", isSynced)
	is := func(uid, value string) func(*seen) bool { return func(s *seen) bool { return s.fields[uid] == value } }
	s.until(t, "its value", is(before, "one"))
	b.Must(t, http.MethodPut, mapsPath+"/before", withData("before", "two"))
	s.until(t, "another value", is(before, "two"))
	b.Must(t, http.MethodDelete, mapsPath+"/before", nil)
	s.until(t, "its deletion", func(s *seen) bool { return s.deleted[before] })
	if n := s.count(metadata.Unreadable) + s.count(metadata.Listing) - 1; n != 0 {
		t.Errorf("listed or unreadable %d times more: %v", n, s.last)
	}
	if now, known := b.client.Time(time.Now()); !known || time.Since(now).Abs() > time.Minute {
		t.Errorf("the API server's time is %v, known: %v", now, known)
	}
	bad := b.Must(t, http.MethodPost, mapsPath, withData("bad", "broken"))
	s.until(t, "the object that cannot be decoded to be reported without fields", func(s *seen) bool {
		fields, ok := s.fields[bad]
		return ok && fields == nil
	})
	after := b.Must(t, http.MethodPost, mapsPath, withData("after", "three"))
	s.until(t, "the next value", is(after, "three"))
	if s.last != nil {
		t.Errorf("the type cannot be read: %v", s.last)
	}
}
