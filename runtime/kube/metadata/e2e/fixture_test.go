package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object = peerstest.Object

var (
	configMaps = gc.Type{APIVersion: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespaced: true}
	namespaces = gc.Type{APIVersion: "v1", Kind: "Namespace", Resource: "namespaces"}
	crontabs   = gc.Type{APIVersion: "example.com/v1", Kind: "CronTab", Resource: "crontabs", Namespaced: true}
)

const (
	patience = 3 * time.Minute

	crdPath     = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	mapsPath    = "/api/v1/namespaces/default/configmaps"
	cronPath    = "/apis/example.com/v1/namespaces/default/crontabs"
	servicePath = "/apis/apiregistration.k8s.io/v1/apiservices"
)

// fixture is a cluster and a client of it.
type fixture struct {
	*peerstest.Cluster
	client *metadata.Client
}

func newFixture(t testing.TB, c peers.Config) *fixture {
	t.Helper()
	b := &fixture{Cluster: peerstest.Start(t, c)}
	b.client = connect(t, b.AdminKubeconfig(t))
	await.Holds(t, patience, "the namespace default", func(ctx context.Context) error {
		return b.Ask(ctx, http.MethodGet, "/api/v1/namespaces/default", nil, nil)
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

// crd defines CronTabs in versions.
func crd(versions ...string) object {
	return peerstest.Definition("example.com", "CronTab", "crontabs", "Namespaced", versions...)
}

// undefine deletes the CRD and waits until it has gone.
func (b *fixture) undefine(t testing.TB) {
	t.Helper()
	b.Must(t, http.MethodDelete, crdPath+"/crontabs.example.com", nil)
	b.AwaitGone(t, crdPath+"/crontabs.example.com")
}

// seen is what a follower has reported.
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

// until waits until what was reported fulfils a condition.
func (s *seen) until(t testing.TB, what string, holds func(*seen) bool) {
	t.Helper()
	timeout := time.After(patience)
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
