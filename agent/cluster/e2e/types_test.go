package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
)

const crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"

// Types come and go, and nothing else is stopped by that.
func TestTypes(t *testing.T) {
	b := newFixture(t, peers.Config{})
	r := b.start(t, b.kubeconfig, nil)
	t.Run("late definition", func(t *testing.T) { testLateDefinition(t, b, r) })
	t.Run("unserved version", func(t *testing.T) { testUnserved(t, b, r) })
	t.Run("deleted and made again", func(t *testing.T) { testMadeAgain(t, b, r) })
	t.Run("broken conversion", func(t *testing.T) { testBrokenConversion(t, b, r) })
	r.stop()
	t.Run("forbidden type", func(t *testing.T) { testForbidden(t, b) })
}

// Cascades work for a type at once. The API server itself lets nobody create an object
// within 2 s of the definition: it sleeps, so that other API servers have heard of it by
// then (k8s.io/apiextensions-apiserver pkg/apiserver/customresource_handler.go).
func testLateDefinition(t *testing.T, b *fixture, r *running) {
	s := b.scenario(t)
	begun := time.Now()
	b.define(t, "v1")
	r.awaitState(t, "widgets.example.com", "synced")
	followed := time.Since(begun)
	s.make("widget/o", "cm/a < widget/o", "widget/b < cm/a")
	made := time.Since(begun)
	begun = time.Now()
	s.remove("widget/o", background)
	s.want("-cm/a", "-widget/b")
	gone := time.Since(begun)
	// TestLateType checks, in a synctest bubble, that this is not due to the recheck after 10 s.
	t.Logf("followed %v after it was defined; objects were made after %v, and gone %v after their owner", followed, made, gone)
}

// A version that is not served proves nothing about its objects: dependents of a live
// owner stay. The negative control is an owner whose version is served.
func testUnserved(t *testing.T, b *fixture, r *running) {
	s := b.scenario(t)
	s.make("widget/o", "widget/p", "widget/q", "cm/a < widget/o", "cm/b < !widget/p")
	b.define(t, "v2", "v1!")
	await.Holds(t, patience, "the bare 404", func(ctx context.Context) error {
		if err := b.Ask(ctx, http.MethodGet, s.path("widget/o"), nil, nil); !peers.HasStatus(err, http.StatusNotFound) {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
	// Made now, so that their owner is verified now; and control, in v2.
	s.make("cm/c < widget/q")
	v2 := object{"apiVersion": "example.com/v2", "kind": "Widget", "name": "none", "uid": "1"}
	b.Must(t, http.MethodPost, s.path("cm/"), object{"metadata": object{"name": "control", "ownerReferences": []any{v2}}})
	s.want("-cm/control")
	await.Holds(t, patience, "v1 to be gone", func(ctx context.Context) error {
		types, err := r.Types(ctx)
		for _, s := range types {
			if s.APIVersion == "example.com/v1" {
				err = fmt.Errorf("it is %s", s.State)
			}
		}
		return err
	})
	s.make("cm/d < widget/q", "cm/e")
	s.remove("cm/e", background)
	s.want("-cm/e", "cm/a=1", "cm/b=1", "cm/c=1", "cm/d=1")
	b.define(t, "v1", "v2!")
	r.awaitState(t, "widgets.example.com", "synced")
	s.remove("widget/o", background)
	s.remove("widget/p", foreground)
	s.want("-cm/a", "-cm/b", "cm/c=1", "cm/d=1")
}

// A definition that is deleted takes its objects with it, and what they owned goes,
// also when another of the same name comes at once (kubernetes issue 142039).
func testMadeAgain(t *testing.T, b *fixture, r *running) {
	s := b.scenario(t)
	s.make("widget/o", "cm/a < widget/o", "cm/keep", "cm/k < cm/keep")
	b.Must(t, http.MethodDelete, crd, nil)
	b.AwaitGone(t, crd)
	b.define(t, "v1")
	s.make("widget/again", "cm/b < widget/again")
	s.want("-cm/a", "cm/k=1", "cm/b=1")
	s.remove("widget/again", background)
	s.want("-cm/b")
	r.awaitState(t, "widgets.example.com", "synced")
	b.Must(t, http.MethodDelete, crd, nil)
	b.AwaitGone(t, crd)
	r.awaitState(t, "widgets.example.com", "")
	b.define(t, "v1")
	r.awaitState(t, "widgets.example.com", "synced")
}

// A type that nobody can list, because its conversion webhook is down, holds nothing:
// what it has of the dependents of an orphaned owner loses its reference when it can be
// read again.
func testBrokenConversion(t *testing.T, b *fixture, r *running) {
	s := b.scenario(t)
	s.make("cm/o", "widget/w < cm/o")
	definition := widgets("v2", "v1!")
	m, err := b.Get(t.Context(), crd)
	if err != nil {
		t.Fatal(err)
	}
	definition["metadata"].(object)["resourceVersion"] = m.ResourceVersion
	definition["spec"].(object)["conversion"] = object{"strategy": "Webhook", "webhook": object{
		"conversionReviewVersions": []any{"v1"}, "clientConfig": object{"url": "https://127.0.0.1:1/convert"}}}
	b.Must(t, http.MethodPut, crd, definition)
	r.awaitState(t, "widgets.example.com", "unreadable")
	s.make("cm/p", "cm/a < cm/o", "cm/b < cm/p")
	s.remove("cm/p", background)
	s.want("-cm/b")
	s.remove("cm/o", orphan)
	s.want("-cm/o", "cm/a=0")
	b.define(t, "v2", "v1!")
	r.awaitState(t, "widgets.example.com", "synced")
	later := kinds["widget"]
	later.apiVersion = "example.com/v2" // v1 is not served any more
	kinds["later widget"] = later
	s.uids["later widget/w"] = s.uids["widget/w"]
	s.want("later widget/w=0")
	b.Must(t, http.MethodDelete, crd, nil)
	b.AwaitGone(t, crd)
}

// Who may not read secrets collects the rest. A secret whose owner was orphaned meanwhile
// stays.
func testForbidden(t *testing.T, b *fixture) {
	r := b.start(t, b.limited(t), func(c *config.Config) { c.ForegroundPatience = config.Duration(2 * time.Second) })
	r.awaitState(t, "secrets", "unreadable")
	s := b.scenario(t)
	s.make("cm/o", "cm/p", "cm/q", "secret/a < cm/o", "cm/b < cm/o", "cm/c < cm/p", "cm/d < !cm/q")
	s.remove("cm/o", orphan)
	s.remove("cm/p", background)
	s.remove("cm/q", foreground)
	s.want("-cm/c", "-cm/d", "-cm/q", "cm/b=0", "-cm/o", "secret/a=1")
	await.Holds(t, patience, "the event", func(context.Context) error {
		given := b.events(t, s.namespace, "CascadeTypesGivenUp")
		if len(given) != 1 || !strings.Contains(given[0], "secrets") {
			return fmt.Errorf("%q", given)
		}
		return nil
	})
	b.bindLimited(t, "ebb-controller") // now it may
	s.want("secret/a=0")
	r.awaitState(t, "secrets", "synced")
}

const rbac = "/apis/rbac.authorization.k8s.io/v1/"

// limited is the kubeconfig of somebody who may do what the controller may, but not
// with secrets.
func (b *fixture) limited(t *testing.T) (kubeconfig string) {
	t.Helper()
	b.Must(t, http.MethodPost, "/api/v1/namespaces/ebb-system/serviceaccounts", object{"metadata": object{"name": "limited"}})
	all := []string{"get", "list", "watch", "patch", "delete"}
	var groups struct{ Groups []struct{ Name string } }
	var core struct{ Resources []struct{ Name string } }
	for path, out := range map[string]any{"/apis": &groups, "/api/v1": &core} {
		if err := b.Ask(t.Context(), http.MethodGet, path, nil, out); err != nil {
			t.Fatal(err)
		}
	}
	rules := []any{object{"apiGroups": []string{"", "events.k8s.io"}, "resources": []string{"events"}, "verbs": []string{"create", "patch"}},
		object{"apiGroups": []string{""}, "resources": []string{"configmaps"}, "verbs": []string{"create", "update"}}}
	for _, g := range groups.Groups {
		rules = append(rules, object{"apiGroups": []string{g.Name}, "resources": []string{"*"}, "verbs": all})
	}
	for _, c := range core.Resources {
		if c.Name != "secrets" {
			rules = append(rules, object{"apiGroups": []string{""}, "resources": []string{c.Name}, "verbs": all})
		}
	}
	b.Must(t, http.MethodPost, rbac+"clusterroles", object{"metadata": object{"name": "limited"}, "rules": rules})
	b.bindLimited(t, "limited")
	kubeconfig, err := b.ServiceAccountKubeconfig(t.Context(), "ebb-system", "limited")
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func (b *fixture) bindLimited(t *testing.T, role string) {
	t.Helper()
	b.Must(t, http.MethodPost, rbac+"clusterrolebindings", object{"metadata": object{"name": "limited-" + role},
		"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
		"subjects": []any{object{"kind": "ServiceAccount", "name": "limited", "namespace": "ebb-system"}}})
}
