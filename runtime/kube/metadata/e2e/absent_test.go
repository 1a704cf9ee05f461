package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
)

// What proves that an object is absent, and what does not although it is a 404.
func TestAbsent(t *testing.T) {
	b := newFixture(t, peers.Config{})
	b.Define(t, crd("v1", "v2"))
	b.Must(t, http.MethodPost, cronPath, cronTab("live", nil))
	v2 := crontabs
	v2.APIVersion = "example.com/v2"

	check := func(what string, typ gc.Type, name string, want gc.State, kind error) {
		t.Helper()
		got, err := b.read(t, typ, name)
		if got.State != want || !errors.Is(err, kind) || kind == nil && err != nil {
			t.Errorf("%s: state %d, %v; want %d, %v", what, got.State, err, want, kind)
		}
		a := gc.Action{Verb: gc.Delete, Object: at(typ, name, "some-uid"), ResourceVersion: "1"}
		if out := b.client.Do(t.Context(), a, typ.Namespaced); (out.Result == gc.Gone) != (want == gc.Absent) {
			t.Errorf("%s: delete: %s, %v", what, out.Result, out.Err)
		}
	}
	check("a live object", crontabs, "live", gc.Exists, nil)
	check("a live object in another version", v2, "live", gc.Exists, nil)
	check("no such object", crontabs, "none", gc.Absent, nil)
	check("no such object, built in", configMaps, "none", gc.Absent, nil)
	check("no such cluster-scoped object", namespaces, "none", gc.Absent, nil)
	check("a name with a colon", gc.Type{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Resource: "clusterroles"},
		"system:none such", gc.Absent, nil)
	for _, name := range []string{"", ".", "..", "../live", "live%2f", "a\nb"} {
		check(fmt.Sprintf("name %q", name), crontabs, name, gc.Unknown, metadata.ErrRefused)
	}

	unserved := crontabs
	unserved.APIVersion = "example.com/v3"
	check("a version that never was", unserved, "live", gc.Unknown, metadata.ErrNotServed)
	unserved.APIVersion = "nowhere.example.com/v1"
	check("a group that never was", unserved, "live", gc.Unknown, metadata.ErrNotServed)

	var now map[string]any
	if err := b.Ask(t.Context(), http.MethodGet, crdPath+"/crontabs.example.com", nil, &now); err != nil {
		t.Fatal(err)
	}
	definition := crd("v1", "v2!")
	definition["metadata"] = now["metadata"]
	b.Must(t, http.MethodPut, crdPath+"/crontabs.example.com", definition)
	await.Holds(t, patience, "v2 not to be served", func(ctx context.Context) error {
		if a, _ := b.client.Read(ctx, at(v2, "live", ""), true); a.State == gc.Exists {
			return errors.New("still served")
		}
		return nil
	})
	check("a live object whose version is not served any more", v2, "live", gc.Unknown, metadata.ErrNotServed)
	check("the same in the version that is", crontabs, "live", gc.Exists, nil)

	b.undefine(t)
	await.Holds(t, patience, "the path to go", func(ctx context.Context) error {
		if _, err := b.client.Read(ctx, at(crontabs, "live", ""), true); err == nil {
			return errors.New("still served")
		}
		return nil
	})
	check("an object whose definition was deleted", crontabs, "live", gc.Unknown, metadata.ErrNotServed)
}
