package e2e

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/ebb-agent/ebb/tools/await"
	aggregated "github.com/ebb-agent/ebb/tools/extension"
	"github.com/ebb-agent/ebb/tools/peers"
)

// Two resources of an aggregated API server have one kind. Dependents among both are
// followed; and a reference to the kind means an object of either, so that an owner in
// the second is not absent because the first has none of its name.
func TestTwoResourcesOfOneKind(t *testing.T) {
	b := newFixture(t, peers.Config{})
	e, err := aggregated.New(b.Authority(), aggregated.Config{Types: []aggregated.Type{
		{Resource: "things", Kind: "Thing"}, {Resource: "xthings", Kind: "Thing"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Register(t.Context(), b.ControlPlane); err != nil {
		t.Fatal(err)
	}
	s := b.scenario(t)
	owner := e.Add("xthings", aggregated.Object{Namespace: s.namespace, Name: "o"})
	own := func(name, uid string) object {
		return object{"metadata": object{"name": name, "ownerReferences": []any{
			object{"apiVersion": "ext.example.com/v1", "kind": "Thing", "name": "o", "uid": uid}}}}
	}
	// Made before anybody watches, and while.
	s.uids["cm/a"] = b.Must(t, http.MethodPost, s.path("cm/"), own("a", owner))
	for _, resource := range []string{"things", "xthings"} {
		e.Add(resource, aggregated.Object{Namespace: s.namespace, Name: "witness"})
	}
	r := b.start(t, b.kubeconfig, soon)
	r.awaitState(t, "things.ext.example.com", "synced")
	r.awaitState(t, "xthings.ext.example.com", "synced")
	s.uids["cm/b"] = b.Must(t, http.MethodPost, s.path("cm/"), own("b", owner))
	s.make("cm/p")
	p, err := b.Get(t.Context(), s.path("cm/p"))
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range []string{"things", "xthings"} {
		dependent := own("dependent", "")
		dependent["apiVersion"], dependent["kind"] = "ext.example.com/v1", "Thing"
		dependent["metadata"].(object)["ownerReferences"] = []any{object{"apiVersion": "v1", "kind": "ConfigMap", "name": "p", "uid": p.UID}}
		b.Must(t, http.MethodPost, e.Path(resource, s.namespace, ""), dependent)
	}
	// The negative control names the same kind and nothing that is there.
	b.Must(t, http.MethodPost, s.path("cm/"), own("control", "11111111-2222-3333-4444-555555555555"))
	s.want("-cm/control", "cm/a=1", "cm/b=1")
	s.remove("cm/p", background)
	await.Holds(t, patience, "the dependents of both resources to go", func(context.Context) error {
		for _, resource := range []string{"things", "xthings"} {
			if _, there := e.Get(resource, s.namespace, "dependent"); there {
				return errors.New(resource)
			}
		}
		return nil
	})
	s.want("cm/a=1", "cm/b=1")
	e.Remove("xthings", s.namespace, "o")
	s.want("-cm/a", "-cm/b")
}
