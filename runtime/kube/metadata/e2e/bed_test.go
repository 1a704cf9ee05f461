package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object = map[string]any

var (
	configMaps = gc.Type{APIVersion: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespaced: true}
	namespaces = gc.Type{APIVersion: "v1", Kind: "Namespace", Resource: "namespaces"}
	crontabs   = gc.Type{APIVersion: "example.com/v1", Kind: "CronTab", Resource: "crontabs", Namespaced: true}
)

const (
	crdPath     = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	mapsPath    = "/api/v1/namespaces/default/configmaps"
	cronPath    = "/apis/example.com/v1/namespaces/default/crontabs"
	servicePath = "/apis/apiregistration.k8s.io/v1/apiservices"
)

// bed is a control plane and a client of it.
type bed struct {
	cp     *peers.ControlPlane
	admin  *http.Client
	client *metadata.Client
}

func newBed(t testing.TB) *bed {
	t.Helper()
	return newBedWith(t, peers.Config{})
}

func newBedWith(t testing.TB, c peers.Config) *bed {
	t.Helper()
	b := &bed{cp: peerstest.StartControlPlane(t, c)}
	var err error
	if b.admin, err = b.cp.Admin(); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := b.cp.Kubeconfig("metadata", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	b.client = connect(t, kubeconfig)
	b.await(t, "the namespace default", func(ctx context.Context) error {
		return b.ask(ctx, http.MethodGet, "/api/v1/namespaces/default", nil, nil)
	})
	return b
}

func connect(t testing.TB, kubeconfig string) *metadata.Client {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c, err := metadata.New(config, metadata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (b *bed) ask(ctx context.Context, method, path string, in, out any) error {
	return peers.Request(ctx, b.admin, method, b.cp.URL()+path, in, out)
}

// must asks for something that must succeed at once, and returns its UID.
func (b *bed) must(t testing.TB, method, path string, in any) (uid string) {
	t.Helper()
	var out struct{ Metadata struct{ UID string } }
	if err := b.ask(t.Context(), method, path, in, &out); err != nil {
		t.Fatal(err)
	}
	return out.Metadata.UID
}

// await asks again until something holds.
func (b *bed) await(t testing.TB, what string, holds func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for {
		err := holds(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("wait for %s: %v", what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func configMap(name string, more object) object {
	meta := object{"name": name}
	for k, v := range more {
		meta[k] = v
	}
	return object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
}

func cronTab(name string, more object) object {
	o := configMap(name, more)
	o["apiVersion"], o["kind"] = "example.com/v1", "CronTab"
	return o
}

// crd defines CronTabs in versions; those with a ! behind them are not served.
func crd(versions ...string) object {
	var list []any
	for i, v := range versions {
		served := v[len(v)-1] != '!'
		if !served {
			v = v[:len(v)-1]
		}
		list = append(list, object{"name": v, "served": served, "storage": i == 0, "schema": object{
			"openAPIV3Schema": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
	}
	return object{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": "crontabs.example.com"},
		"spec": object{"group": "example.com", "scope": "Namespaced", "versions": list,
			"names": object{"plural": "crontabs", "singular": "crontab", "kind": "CronTab", "listKind": "CronTabList"}}}
}

// define has a CRD served.
func (b *bed) define(t testing.TB, definition object) {
	t.Helper()
	b.must(t, http.MethodPost, crdPath, definition)
	b.await(t, "the custom resource", func(ctx context.Context) error {
		return b.ask(ctx, http.MethodGet, "/apis/example.com/v1/crontabs", nil, nil)
	})
}

// undefine deletes the CRD and waits until it has gone.
func (b *bed) undefine(t testing.TB) {
	t.Helper()
	b.must(t, http.MethodDelete, crdPath+"/crontabs.example.com", nil)
	b.await(t, "the end of the custom resource", func(ctx context.Context) error {
		err := b.ask(ctx, http.MethodGet, crdPath+"/crontabs.example.com", nil, nil)
		var status *peers.StatusError
		if errors.As(err, &status) && status.Code == http.StatusNotFound {
			return nil
		}
		return fmt.Errorf("it is still there: %w", err)
	})
}

// seen is what a follower has told.
type seen struct {
	*metadata.Follower
	mu      sync.Mutex
	objects map[string]gc.Object // by UID
	fields  map[string]any
	deleted map[string]bool
	counts  map[metadata.EventKind]int
	synced  bool
	last    error
	changed chan struct{}
}

func (s *seen) sink(_ context.Context, batch []metadata.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range batch {
		s.counts[e.Kind]++
		switch e.Kind {
		case metadata.Listing:
			clear(s.objects)
			s.synced = false
		case metadata.Observed:
			s.objects[e.Object.UID], s.fields[e.Object.UID] = e.Object, e.Fields
		case metadata.Deleted:
			delete(s.objects, e.Object.UID)
			s.deleted[e.Object.UID] = true
		case metadata.Synced:
			s.synced, s.last = true, nil
		case metadata.Unreadable:
			s.synced, s.last = false, e.Err
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

// until waits until what was told fulfils something.
func (s *seen) until(t testing.TB, what string, holds func(*seen) bool) {
	t.Helper()
	timeout := time.After(3 * time.Minute)
	for {
		s.mu.Lock()
		ok, changed, state := holds(s), s.changed, fmt.Sprintf("%d objects, synced %t, %v, %v", len(s.objects), s.synced, s.counts, s.last)
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("wait for %s: %s", what, state)
		}
	}
}

func (s *seen) get(uid string) (gc.Object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[uid]
	return o, ok
}

func (s *seen) count(k metadata.EventKind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[k]
}

func isSynced(s *seen) bool { return s.synced }

func has(uid string) func(*seen) bool {
	return func(s *seen) bool { _, ok := s.objects[uid]; return ok }
}

// follow follows a type until the test ends.
func follow(t testing.TB, c *metadata.Client, typ gc.Type) *seen {
	t.Helper()
	return followWhole(t, c, typ, nil)
}

// followWhole does, and has fields read besides.
func followWhole(t testing.TB, c *metadata.Client, typ gc.Type, fields metadata.Fields) *seen {
	t.Helper()
	s := &seen{objects: map[string]gc.Object{}, deleted: map[string]bool{}, fields: map[string]any{},
		counts: map[metadata.EventKind]int{}, changed: make(chan struct{})}
	s.Follower = c.Follow(typ, fields, s.sink)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return s
}
