package e2e

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
)

// plainly asks the real API server as if aggregated discovery had never been thought of.
type plainly struct{ http.RoundTripper }

func (p plainly) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.Header.Get("Accept"), "apidiscovery") {
		r = r.Clone(r.Context())
		r.Header.Set("Accept", "application/json")
	}
	return p.RoundTripper.RoundTrip(r)
}

// One version after the other tells the same types as all at once, and the same of an
// API server that does not answer.
func TestDiscoverUnaggregated(t *testing.T) {
	b := newFixture(t, peers.Config{})
	b.Define(t, crd("v1", "v2", "v3!"))
	kubeconfig, err := b.Kubeconfig("metadata", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 1000)
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return plainly{counting{rt, asked}} })
	plain, err := metadata.New(config, metadata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plain.Close)
	same := func(t *testing.T) (d metadata.Discovery) {
		t.Helper()
		want, wantErr := b.client.Discover(t.Context())
		d, err := plain.Discover(t.Context())
		if err != nil || wantErr != nil {
			t.Fatal(err, wantErr)
		}
		for _, list := range [][]gc.Type{want.Types, d.Types} {
			slices.SortFunc(list, func(a, b gc.Type) int {
				return cmp.Or(strings.Compare(a.APIVersion, b.APIVersion), strings.Compare(a.Kind, b.Kind))
			})
		}
		if diff := gocmp.Diff(want.Types, d.Types); diff != "" {
			t.Errorf("types (-at once +one by one):\n%s", diff)
		}
		return d
	}
	if d := same(t); len(d.Partial) != 0 || len(d.Types) < 50 {
		t.Errorf("%d types, partial %v", len(d.Types), d.Partial)
	}
	var paths []string
	for len(asked) > 0 {
		paths = append(paths, <-asked)
	}
	for _, path := range []string{"/api/v1", "/apis/apps/v1", "/apis/example.com/v2"} {
		if !slices.Contains(paths, path) {
			t.Errorf("%s was not asked for: %v", path, paths)
		}
	}
	b.Must(t, http.MethodPost, servicePath, object{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": object{"name": "v1.dead.example.com"}, "spec": object{"group": "dead.example.com", "version": "v1",
			"groupPriorityMinimum": 1000, "versionPriority": 10, "insecureSkipTLSVerify": true,
			"service": object{"name": "dead", "namespace": "default"}}})
	await.Holds(t, patience, "the dead API service to be seen by both", func(ctx context.Context) error {
		for _, c := range []*metadata.Client{b.client, plain} {
			if d, err := c.Discover(ctx); err != nil || d.Partial["dead.example.com/v1"] == nil {
				return errors.Join(err, errors.New("it is not among the partial"))
			}
		}
		return nil
	})
	same(t)
}

// counting notes which paths were asked for.
type counting struct {
	http.RoundTripper
	asked chan string
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case c.asked <- r.URL.Path:
	default:
	}
	return c.RoundTripper.RoundTrip(r)
}
