package e2e

import (
	"context"
	"net/http"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/ebb-agent/ebb/agent/cluster"
	"github.com/ebb-agent/ebb/agent/cluster/apitest"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
)

// What the controller's tests put in place of the API server passes the same suite.
func TestConformance(t *testing.T) {
	b := newFixture(t, peers.Config{})
	rc, err := clientcmd.BuildConfigFromFlags("", b.AdminKubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	client, err := metadata.New(rc, metadata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	await.Holds(t, patience, "the namespace default", func(ctx context.Context) error {
		return b.Ask(ctx, http.MethodGet, "/api/v1/namespaces/default", nil, nil)
	})
	const path = "/api/v1/namespaces/default/configmaps"
	api := cluster.FromClient(client)
	apitest.Conformance(t, apitest.Server{
		API:    api,
		Follow: func(typ gc.Type, sink metadata.Sink) apitest.Follower { return api.Follow(typ, nil, sink) },
		Create: func(t *testing.T, name string, owners []gc.Reference, finalizers ...string) (uid string) {
			t.Helper()
			refs := []object{}
			for _, r := range owners {
				refs = append(refs, object{"apiVersion": r.APIVersion, "kind": r.Kind, "name": r.Name, "uid": r.UID, "blockOwnerDeletion": r.Block})
			}
			return b.Must(t, http.MethodPost, path, object{"metadata": object{"name": name, "ownerReferences": refs, "finalizers": finalizers}})
		},
		Touch: func(t *testing.T, name string) {
			t.Helper()
			b.Must(t, http.MethodPatch, path+"/"+name, object{"data": object{"touched": "yes"}})
		},
		Delete: func(t *testing.T, name string, p gc.Policy) {
			t.Helper()
			b.Must(t, http.MethodDelete, path+"/"+name, object{"propagationPolicy": p})
		},
	})
}
