package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ebb-agent/ebb/agent/cluster"
	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/election"
	"github.com/ebb-agent/ebb/agent/cluster/journal"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object = map[string]any

// bed is a control plane whose API server knows ebb-controller.
type bed struct {
	cp         *peers.ControlPlane
	admin      *http.Client
	kubeconfig string // of ebb-controller's service account
	via        string // URL of the API server that the tests ask; empty: the first
	spaces     int
	over       func(cluster.API) cluster.API // nil: the client itself
	remembers  bool                          // what outlives a controller is kept on its Lease
}

func newBed(t *testing.T, c peers.Config) *bed {
	t.Helper()
	b := &bed{cp: peerstest.StartControlPlane(t, c)}
	var err error
	if b.admin, err = b.cp.Admin(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"00-namespace.yaml", "controller-rbac.yaml", "controller-flowschema.yaml"} {
		if err := b.cp.Apply(t.Context(), filepath.Join("../../../deploy/manifests", file)); err != nil {
			t.Fatal(err)
		}
	}
	if b.kubeconfig, err = b.cp.ServiceAccountKubeconfig(t.Context(), "ebb-system", "ebb-controller"); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bed) ask(ctx context.Context, method, path string, in, out any) error {
	url := b.cp.URL()
	if b.via != "" {
		url = b.via
	}
	return peers.Request(ctx, b.admin, method, url+path, in, out)
}

// must asks for something that must succeed, and returns the object's UID.
func (b *bed) must(t *testing.T, method, path string, in any) (uid string) {
	t.Helper()
	var out struct{ Metadata struct{ UID string } }
	if err := b.ask(t.Context(), method, path, in, &out); err != nil {
		t.Fatal(err)
	}
	return out.Metadata.UID
}

func isStatus(err error, code int) bool {
	var s *peers.StatusError
	return errors.As(err, &s) && s.Code == code
}

// await asks again until something holds.
func await(t *testing.T, what string, holds func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var last error
	for {
		err := holds(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err // what the end of the wait breaks off says nothing
		}
		select {
		case <-ctx.Done():
			t.Fatalf("wait for %s: %v", what, last)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// meta is what the tests look at of an object.
type meta struct {
	UID               string
	ResourceVersion   string
	DeletionTimestamp string
	Finalizers        []string
	OwnerReferences   []struct{ Kind, Name, UID string }
}

// get reads an object; nil if it is not there.
func (b *bed) get(ctx context.Context, path string) (*meta, error) {
	var out struct{ Metadata meta }
	err := b.ask(ctx, http.MethodGet, path, nil, &out)
	if isStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	return &out.Metadata, err
}

func (b *bed) awaitGone(t *testing.T, path string) {
	t.Helper()
	await(t, path+" to go", func(ctx context.Context) error {
		m, err := b.get(ctx, path)
		if m != nil && err == nil {
			err = fmt.Errorf("it is there: %+v", *m)
		}
		return err
	})
}

// running is a controller in this process.
type running struct {
	*cluster.Controller
	config  config.Config
	metrics *cluster.Metrics
	log     logBuffer
	stop    func()
}

type logBuffer struct {
	mu   sync.Mutex
	data bytes.Buffer // not embedded: its ReadFrom knows no lock
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.Write(p)
}

func (l *logBuffer) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.String()
}

// start runs a controller until the test ends or stop is called, and waits until
// every type was listed or cannot be.
func (b *bed) start(t *testing.T, kubeconfig string, change func(*config.Config)) *running {
	t.Helper()
	return b.startBy(t, kubeconfig, change, func(ctx context.Context, r *running, _ *rest.Config, _ *metadata.Client) error {
		return r.Run(ctx)
	})
}

// startBy does the same; run is what runs it.
func (b *bed) startBy(t *testing.T, kubeconfig string, change func(*config.Config), run func(context.Context, *running, *rest.Config, *metadata.Client) error) *running {
	t.Helper()
	r := &running{config: config.Default(), metrics: cluster.NewMetrics()}
	r.config.Mode = config.Enforce
	r.config.Server = config.Server{}
	if change != nil {
		change(&r.config)
	}
	rc, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := metadata.New(rc, metadata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	api := cluster.Over(client)
	if b.over != nil {
		api = b.over(api)
	}
	store, err := journal.ConfigMaps(rc, r.config.LeaderElection.Namespace, r.config.LeaderElection.JournalName())
	if err != nil {
		t.Fatal(err)
	}
	var memory cluster.Memory
	if b.remembers {
		mark, err := election.NewMark(rc, election.Options{Namespace: r.config.LeaderElection.Namespace, Name: r.config.LeaderElection.Name})
		if err != nil {
			t.Fatal(err)
		}
		memory = mark
	}
	r.Controller = cluster.New(cluster.Options{Config: r.config, Journal: store, API: api, Metrics: r.metrics, Memory: memory,
		Log: slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- run(ctx, r, rc, client) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		client.Close()
		if text := r.log.text(); t.Failed() {
			t.Logf("the controller's log ends with:\n%s", text[max(0, len(text)-16<<10):])
		}
	})
	t.Cleanup(r.stop)
	r.awaitSynced(t)
	return r
}

func (r *running) awaitSynced(t *testing.T) {
	t.Helper()
	await(t, "all types to be listed", func(ctx context.Context) error {
		types, err := r.Types(ctx)
		if err != nil || len(types) == 0 {
			return fmt.Errorf("%d types, %w", len(types), err)
		}
		for _, s := range types {
			if s.State == "listing" {
				return fmt.Errorf("%s is %s", s.Type, s.State)
			}
		}
		return nil
	})
}

// metric is the sum of a family's series.
func (r *running) metric(t *testing.T, name string) (sum float64) {
	t.Helper()
	families, err := r.metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "ebb_controller_"+name {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// state of a type, "" if it is not known.
func (r *running) state(ctx context.Context, name string) string {
	types, err := r.Types(ctx)
	if err != nil {
		return err.Error()
	}
	for _, s := range types {
		if s.Type == name && s.State != "unwatched" {
			return s.State
		}
	}
	return ""
}

func (r *running) awaitState(t *testing.T, name, want string) {
	t.Helper()
	await(t, name+" to be "+want, func(ctx context.Context) error {
		if got := r.state(ctx, name); got != want {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}

// events of a reason.
func (b *bed) events(t *testing.T, namespace, reason string) (notes []string) {
	t.Helper()
	var list struct {
		Items []struct{ Reason, Message string }
	}
	if err := b.ask(t.Context(), http.MethodGet, "/api/v1/namespaces/"+namespace+"/events", nil, &list); err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Reason == reason {
			notes = append(notes, e.Message)
		}
	}
	return notes
}
