package e2e

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ebb-agent/ebb/agent/cluster"
	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/election"
	"github.com/ebb-agent/ebb/agent/cluster/gate"
	"github.com/ebb-agent/ebb/agent/cluster/journal"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/dice"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object = peerstest.Object

// patience is for what takes seconds.
const patience = 3 * time.Minute

// fixture is a cluster whose API server knows ebb-controller.
type fixture struct {
	*peerstest.Cluster
	kubeconfig string // of ebb-controller's service account
	spaces     int
	chance     *rand.Rand                    // of the test's own goroutine
	over       func(cluster.API) cluster.API // nil: the client itself
	remembers  bool                          // what outlives a controller is kept on its Lease
}

func newFixture(t *testing.T, c peers.Config) *fixture {
	t.Helper()
	b := &fixture{Cluster: peerstest.Start(t, c), chance: dice.New(t)}
	b.ApplyFiles(t, "manifests/00-namespace.yaml", "manifests/enforce/controller-rbac.yaml", "manifests/controller/flowschema.yaml")
	var err error
	if b.kubeconfig, err = b.ServiceAccountKubeconfig(t.Context(), "ebb-system", "ebb-controller"); err != nil {
		t.Fatal(err)
	}
	return b
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
func (b *fixture) start(t *testing.T, kubeconfig string, change func(*config.Config)) *running {
	t.Helper()
	return b.startBy(t, kubeconfig, change, func(ctx context.Context, r *running, _ *rest.Config, _ *metadata.Client) error {
		return r.Run(ctx)
	})
}

// startBy does the same; run is what runs it.
func (b *fixture) startBy(t *testing.T, kubeconfig string, change func(*config.Config), run func(context.Context, *running, *rest.Config, *metadata.Client) error) *running {
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
	api := cluster.FromClient(client)
	if b.over != nil {
		api = b.over(api)
	}
	store, err := journal.ConfigMaps(rc, r.config.LeaderElection.Namespace, r.config.LeaderElection.JournalName())
	if err != nil {
		t.Fatal(err)
	}
	var memory gate.StateStore
	if b.remembers {
		mark, err := election.NewLeaseState(rc, election.Options{Namespace: r.config.LeaderElection.Namespace, Name: r.config.LeaderElection.Name})
		if err != nil {
			t.Fatal(err)
		}
		memory = mark
	}
	r.Controller = cluster.New(cluster.Options{Config: r.config, Journal: store, API: api, Metrics: r.metrics, State: memory,
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
	await.Holds(t, patience, "all types to be listed", func(ctx context.Context) error {
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
	i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "ebb_controller_"+name })
	if i < 0 {
		t.Errorf("no metric ebb_controller_%s", name)
		return 0
	}
	for _, m := range families[i].GetMetric() {
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
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
	await.Holds(t, patience, name+" to be "+want, func(ctx context.Context) error {
		if got := r.state(ctx, name); got != want {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}

// events of a reason.
func (b *fixture) events(t *testing.T, namespace, reason string) (notes []string) {
	t.Helper()
	var list struct {
		Items []struct{ Reason, Message string }
	}
	if err := b.Ask(t.Context(), http.MethodGet, "/api/v1/namespaces/"+namespace+"/events", nil, &list); err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Reason == reason {
			notes = append(notes, e.Message)
		}
	}
	return notes
}
