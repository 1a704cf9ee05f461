package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/ebb-agent/ebb/agent/cluster"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
)

// discoverer is an API whose discoveries are another's, or held.
type discoverer struct {
	cluster.API
	discover func(ctx context.Context) (metadata.Discovery, error)
}

func (d *discoverer) Discover(ctx context.Context) (metadata.Discovery, error) {
	return d.discover(ctx)
}

// A definition is made after the first discovery was answered and before the definitions
// are listed: it is in that list, and no event reports a change. Its objects are followed soon
// nevertheless, and a foreground deletion among them ends.
func TestDefinedWhileStarting(t *testing.T) {
	b := newFixture(t, peers.Config{})
	var once sync.Once
	b.over = func(api cluster.API) cluster.API {
		return &discoverer{api, func(ctx context.Context) (metadata.Discovery, error) {
			d, err := api.Discover(ctx)
			once.Do(func() {
				if err == nil {
					err = b.defineAndSettle(ctx)
				}
			})
			return d, err
		}}
	}
	r := b.start(t, b.kubeconfig, nil)
	r.awaitState(t, "widgets.example.com", "synced")
	s := b.scenario(t)
	s.make("widget/o", "widget/a < !widget/o", "cm/b < !widget/a")
	s.remove("widget/o", foreground)
	s.want("-widget/o", "-widget/a", "-cm/b")
}

// defineAndSettle returns when the API server no longer changes the definition.
func (b *fixture) defineAndSettle(ctx context.Context) error {
	path, _, _ := strings.Cut(crd, "/widgets.")
	if err := b.Ask(ctx, http.MethodPost, path, widgets("v1"), nil); err != nil {
		return err
	}
	var was, now struct {
		Metadata struct{ ResourceVersion string }
	}
	for quiet := 0; quiet < 10 && ctx.Err() == nil; quiet++ {
		if err := b.Ask(ctx, http.MethodGet, crd, nil, &now); err != nil {
			return err
		}
		if err := b.Ask(ctx, http.MethodGet, "/apis/example.com/v1/widgets", nil, nil); err != nil || was != now {
			was, quiet = now, 0
		}
		time.Sleep(20 * time.Millisecond)
	}
	return ctx.Err()
}

// Somebody writes the status of two definitions all the time: one that is served, and one
// whose names are refused, which is never discovered.
func TestRestlessDefinition(t *testing.T) {
	b := newFixture(t, peers.Config{Audit: true})
	b.define(t, "v1")
	refused := widgets("v1")
	refused["metadata"] = object{"name": "gadgets.example.com"}
	refused["spec"].(object)["names"].(object)["plural"] = "gadgets" // of the same kind
	path, _, _ := strings.Cut(crd, "/widgets.")
	b.Must(t, http.MethodPost, path, refused)
	r := b.start(t, b.kubeconfig, nil)
	await.Holds(t, patience, "the discoveries to rest", func(context.Context) error {
		done := r.metric(t, "discoveries_total")
		for begun := time.Now(); time.Since(begun) < 12*time.Second; time.Sleep(50 * time.Millisecond) {
			if r.metric(t, "discoveries_total") != done {
				return errors.New("another one")
			}
		}
		return nil
	})
	before, from := r.metric(t, "discoveries_total"), b.auditEnd(t)
	flaps, begun := 0, time.Now()
	for ; flaps < 50 || time.Since(begun) < 12*time.Second; flaps++ {
		for _, name := range []string{crd, path + "/gadgets.example.com"} {
			b.Must(t, http.MethodPatch, name+"/status", object{"status": object{"storedVersions": []any{"v1"},
				"conditions": []any{object{"type": "Restless", "status": "True", "message": fmt.Sprint(flaps)}}}})
		}
	}
	made, most := r.metric(t, "discoveries_total")-before, 9*time.Since(begun).Seconds()/12
	asked, unchanged := b.discoveries(t, from)
	t.Logf("%d changes of each: %v discoveries, %d requests, %d of them answered 304", flaps, made, asked, unchanged)
	if made > most || float64(asked) > 3*most {
		t.Errorf("%d changes of each: %v discoveries, %d requests, want %v discoveries at most", flaps, made, asked, most)
	}
	if made > 0 && unchanged == 0 {
		t.Error("what has not changed is sent again")
	}
}

func (b *fixture) auditEnd(t *testing.T) int64 {
	t.Helper()
	from, err := b.ReadAudit(0, func(peers.AuditEvent) {})
	if err != nil {
		t.Fatal(err)
	}
	return from
}

// discoveries are what the controller asked for since.
func (b *fixture) discoveries(t *testing.T, from int64) (asked, unchanged int) {
	t.Helper()
	_, err := b.ReadAudit(from, func(e peers.AuditEvent) {
		if !strings.HasSuffix(e.User.Username, ":ebb-controller") {
			return
		}
		switch e.RequestURI {
		case "/api", "/apis", "/apis/apiregistration.k8s.io/v1/apiservices":
			asked++
			if e.ResponseStatus.Code == http.StatusNotModified {
				unchanged++
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return asked, unchanged
}

// Of two API servers behind one address the one that answers discovery does not serve a
// type that the other one does, as in an upgrade. It is followed there, and stays; until
// no API server serves it any more.
func TestDiscoveryOfAnotherVersion(t *testing.T) {
	b := newFixture(t, peers.Config{})
	b.define(t, "v1")
	second, err := b.AddAPIServer(t.Context(), "--runtime-config=policy/v1=false")
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, 0, b.URL())
	direct := newProxy(t, 0, second.URL())
	older, err := clientOf(direct.kubeconfig(t, b))
	if err != nil {
		t.Fatal(err)
	}
	defer older.Close()
	var mu sync.Mutex
	first, lacking := true, 0
	b.over = func(api cluster.API) cluster.API {
		return &discoverer{api, func(ctx context.Context) (metadata.Discovery, error) {
			mu.Lock()
			defer mu.Unlock()
			if first {
				first = false
				return api.Discover(ctx)
			}
			lacking++
			return older.Discover(ctx)
		}}
	}
	r := b.start(t, p.kubeconfig(t, b), nil)
	const budgets = "poddisruptionbudgets.policy"
	r.awaitState(t, budgets, "synced")
	s := b.scenario(t)
	s.make("cm/o")
	for begun, n := time.Now(), 0; time.Since(begun) < 15*time.Second; n++ {
		b.define(t, "v1", fmt.Sprintf("v%d", 2+n%2)) // each change has it discovered
		if state := r.state(t.Context(), budgets); state != "synced" {
			t.Fatalf("after %v it is %q", time.Since(begun), state)
		}
		time.Sleep(500 * time.Millisecond)
	}
	mu.Lock()
	if lacking < 3 {
		t.Errorf("%d discoveries lacked it: that tests nothing", lacking)
	}
	mu.Unlock()
	p.only(second.URL())
	r.awaitState(t, budgets, "")
	b.canary(t)
}

func clientOf(kubeconfig string) (*metadata.Client, error) {
	rc, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	return metadata.New(rc, metadata.Options{})
}
