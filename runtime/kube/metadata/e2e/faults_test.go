package e2e

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
)

// An API server that goes and comes again: nothing is listed anew, and what
// happened meanwhile is reported.
func TestAPIServerRestarts(t *testing.T) {
	b := newFixture(t, peers.Config{})
	s := follow(t, b.client, configMaps)
	s.until(t, "the list", isSynced)
	lists := s.count(metadata.Listing)
	if err := b.APIServer.Kill(); err != nil {
		t.Fatal(err)
	}
	s.until(t, "the end of the API server", func(s *seen) bool { return !s.synced })
	if s.last == nil || !errors.Is(s.last, metadata.ErrUnavailable) {
		t.Errorf("unreadable because of %v", s.last)
	}
	if err := b.APIServer.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	uid := b.Must(t, http.MethodPost, mapsPath, configMap("after", nil))
	s.until(t, "the new object", func(s *seen) bool { return s.synced && has(uid)(s) })
	t.Logf("%d lists before, %d after", lists, s.count(metadata.Listing))
	if s.count(metadata.WentBack) != 0 {
		t.Error("resourceVersions were reported to go backwards")
	}
}

func TestCustomResourceComesAgain(t *testing.T) {
	b := newFixture(t, peers.Config{})
	b.Define(t, crd("v1"))
	s := follow(t, b.client, crontabs)
	other := follow(t, b.client, configMaps)
	old := b.Must(t, http.MethodPost, cronPath, cronTab("x", nil))
	s.until(t, "the first object", has(old))
	other.until(t, "the other type", isSynced)
	b.undefine(t)
	s.until(t, "the end of the type", func(s *seen) bool { return !s.synced })
	b.Define(t, crd("v1"))
	fresh := b.Must(t, http.MethodPost, cronPath, cronTab("x", nil))
	s.until(t, "the new object", func(s *seen) bool { return s.synced && has(fresh)(s) && !has(old)(s) })
	if n := other.count(metadata.Unreadable); n != 0 {
		t.Errorf("the other type was unreadable %d times", n)
	}
}

// The error of a client without rights names the user and the missing rights.
func TestForbidden(t *testing.T) {
	b := newFixture(t, peers.Config{})
	uid := b.Must(t, http.MethodPost, mapsPath, configMap("x", nil))
	kubeconfig, err := b.Kubeconfig("nobody-much")
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, kubeconfig)
	s := follow(t, c, configMaps)
	s.until(t, "the refusal", func(s *seen) bool { return s.last != nil })
	if text := s.last.Error(); !errors.Is(s.last, metadata.ErrForbidden) || !strings.Contains(text, "nobody-much") || !strings.Contains(text, "configmaps") {
		t.Errorf("unreadable: %v", s.last)
	}
	if err := s.CatchUp(t.Context()); !errors.Is(err, metadata.ErrForbidden) {
		t.Errorf("catch up: %v", err)
	}
	if a, err := c.Read(t.Context(), at(configMaps, "x", uid), true); a.State != gc.Unknown || !errors.Is(err, metadata.ErrForbidden) {
		t.Errorf("read: %d, %v", a.State, err)
	}
	if a, err := c.Read(t.Context(), at(configMaps, "none", uid), true); a.State != gc.Unknown {
		t.Errorf("read of nothing: %d, %v", a.State, err)
	}
	out := c.Do(t.Context(), gc.Action{Verb: gc.Delete, Object: at(configMaps, "x", uid), ResourceVersion: "1"}, true)
	if out.Result != gc.Forbidden {
		t.Errorf("delete: %+v", out)
	}
}

// A type whose conversion webhook does not answer is unreadable, and no other.
func TestBrokenConversion(t *testing.T) {
	b := newFixture(t, peers.Config{})
	definition := crd("v1", "v2")
	definition["spec"].(object)["conversion"] = object{"strategy": "Webhook", "webhook": object{
		"conversionReviewVersions": []any{"v1"}, "clientConfig": object{"url": "https://127.0.0.1:1/convert"}}}
	b.Define(t, definition)
	b.Must(t, http.MethodPost, cronPath, cronTab("stored", nil))
	broken := crontabs
	broken.APIVersion = "example.com/v2"
	s := follow(t, b.client, broken)
	s.until(t, "the failure", func(s *seen) bool { return s.last != nil })
	t.Log(s.last)
	other := follow(t, b.client, configMaps)
	other.until(t, "the other type", isSynced)
	if a, err := b.read(t, broken, "stored"); a.State != gc.Unknown || err == nil {
		t.Errorf("read: %+v, %v", a, err)
	}
}

// An API server of somebody else that does not answer: its types are not gone.
func TestDiscoverDeadAPIService(t *testing.T) {
	b := newFixture(t, peers.Config{})
	b.Must(t, http.MethodPost, servicePath, object{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": object{"name": "v1.dead.example.com"}, "spec": object{"group": "dead.example.com", "version": "v1",
			"groupPriorityMinimum": 1000, "versionPriority": 10, "insecureSkipTLSVerify": true,
			"service": object{"name": "dead", "namespace": "default"}}})
	await.Holds(t, patience, "the dead API service to be seen", func(ctx context.Context) error {
		d, err := b.client.Discover(ctx)
		if err != nil {
			return err
		}
		if d.Partial["dead.example.com/v1"] == nil {
			return errors.New("it is not among the partial")
		}
		return nil
	})
}

func TestWarn(t *testing.T) {
	b := newFixture(t, peers.Config{})
	uid := b.Must(t, http.MethodPost, mapsPath, configMap("x", nil))
	for _, o := range []gc.Coordinates{at(configMaps, "x", uid), at(namespaces, "default", "")} {
		if err := b.client.Warn(t.Context(), metadata.Notice{Object: o, Reason: "OwnerRefInvalidNamespace",
			Message: "an owner in another namespace: " + strings.Repeat("ü", 2000)}); err != nil {
			t.Error(err)
		}
	}
	var list struct {
		Items []struct{ Reason, Type string }
	}
	if err := b.Ask(t.Context(), http.MethodGet, "/apis/events.k8s.io/v1/namespaces/default/events", nil, &list); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range list.Items {
		if e.Reason == "OwnerRefInvalidNamespace" && e.Type == "Warning" {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d events, want 2: %+v", n, list.Items)
	}
}
