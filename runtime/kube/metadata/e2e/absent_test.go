package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// What proves that an object is absent, and what does not although it is a 404.
func TestAbsent(t *testing.T) {
	b := newBed(t)
	b.define(t, crd("v1", "v2"))
	b.must(t, http.MethodPost, cronPath, cronTab("live", nil))
	v2 := crontabs
	v2.APIVersion = "example.com/v2"

	check := func(what string, typ cascade.Type, name string, want cascade.State, kind error) {
		t.Helper()
		got, err := b.read(t, typ, name)
		if got.State != want || !errors.Is(err, kind) || kind == nil && err != nil {
			t.Errorf("%s: state %d, %v; want %d, %v", what, got.State, err, want, kind)
		}
		a := cascade.Action{Verb: cascade.Delete, Object: at(typ, name, "some-uid"), ResourceVersion: "1"}
		if out := b.client.Do(t.Context(), a, typ.Namespaced); (out.Result == cascade.Gone) != (want == cascade.Absent) {
			t.Errorf("%s: delete: %s, %v", what, out.Result, out.Err)
		}
	}
	check("a live object", crontabs, "live", cascade.Exists, nil)
	check("a live object in another version", v2, "live", cascade.Exists, nil)
	check("no such object", crontabs, "none", cascade.Absent, nil)
	check("no such object, built in", configMaps, "none", cascade.Absent, nil)
	check("no such cluster-scoped object", namespaces, "none", cascade.Absent, nil)
	check("a name with a colon", cascade.Type{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Resource: "clusterroles"},
		"system:none such", cascade.Absent, nil)
	for _, name := range []string{"", ".", "..", "../live", "live%2f", "a\nb"} {
		check(fmt.Sprintf("name %q", name), crontabs, name, cascade.Unknown, metadata.ErrRefused)
	}

	unserved := crontabs
	unserved.APIVersion = "example.com/v3"
	check("a version that never was", unserved, "live", cascade.Unknown, metadata.ErrNotServed)
	unserved.APIVersion = "nowhere.example.com/v1"
	check("a group that never was", unserved, "live", cascade.Unknown, metadata.ErrNotServed)

	var now map[string]any
	if err := b.ask(t.Context(), http.MethodGet, crdPath+"/crontabs.example.com", nil, &now); err != nil {
		t.Fatal(err)
	}
	definition := crd("v1", "v2!")
	definition["metadata"] = now["metadata"]
	b.must(t, http.MethodPut, crdPath+"/crontabs.example.com", definition)
	b.await(t, "v2 not to be served", func(ctx context.Context) error {
		if a, _ := b.client.Read(ctx, at(v2, "live", ""), true); a.State == cascade.Exists {
			return errors.New("still served")
		}
		return nil
	})
	check("a live object whose version is not served any more", v2, "live", cascade.Unknown, metadata.ErrNotServed)
	check("the same in the version that is", crontabs, "live", cascade.Exists, nil)

	b.undefine(t)
	b.await(t, "the path to go", func(ctx context.Context) error {
		if _, err := b.client.Read(ctx, at(crontabs, "live", ""), true); err == nil {
			return errors.New("still served")
		}
		return nil
	})
	check("an object whose definition was deleted", crontabs, "live", cascade.Unknown, metadata.ErrNotServed)
}
