package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/ebb-agent/ebb/policy/gc"
)

// testFinalizers holds the model of DELETE against the API server: what it makes of
// finalizers, as the answer shows them.
func testFinalizers(t *testing.T, b *fixture) {
	const orphan, foreground = gc.OrphanFinalizer, gc.ForegroundFinalizer
	b.Namespace(t, "finalizers")
	lists := [][]string{{hold}, {hold, orphan}, {orphan, hold}, {hold, foreground}, {foreground, hold}, {"example.io/a", orphan, hold}}
	for i, kind := range []string{"ConfigMap", "Widget", "Realm"} {
		for j, before := range lists {
			for k, policy := range []gc.Policy{"", gc.Background, gc.Foreground, gc.Orphan} {
				x := b.make(t, kind, "finalizers", fmt.Sprintf("f-%d-%d-%d", i, j, k), before, false)
				var options any
				if policy != "" {
					options = object{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}
				}
				var answer struct{ Metadata struct{ Finalizers []string } }
				if err := b.Ask(t.Context(), http.MethodDelete, x.path+"/"+x.name, options, &answer); err != nil {
					t.Fatal(err)
				}
				if want := policy.Finalizers(before); !slices.Equal(answer.Metadata.Finalizers, want) {
					t.Errorf("%s with %v deleted %q: %v, the model has %v", kind, before, policy, answer.Metadata.Finalizers, want)
				}
			}
		}
	}
}
