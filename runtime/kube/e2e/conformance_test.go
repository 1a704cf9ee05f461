package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube"
	"github.com/ebb-agent/ebb/runtime/kube/servertest"
	"github.com/ebb-agent/ebb/runtime/kube/sourcetest"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

// What stands in for the API server in the tests of runtime/kube, and for runtime/kube in those of
// the agent, passes the same suites.
func TestConformance(t *testing.T) {
	b := &fixture{Cluster: peerstest.Start(t, peers.Config{})}
	made := 0
	put := b.put(&made)
	s := servertest.Server{Client: b.Admin, URL: b.URL(), Put: put, Remove: b.remove, Forget: func(t *testing.T) {
		t.Helper()
		if err := b.APIServer.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}}
	t.Run("Server/Pods", func(t *testing.T) { servertest.Pods(t, s) })
	t.Run("Server/Events", func(t *testing.T) { servertest.Events(t, s) })

	source, err := kube.NewAPIServer(kube.APIServerOptions{NodeName: nodeName, Kubeconfig: b.AdminKubeconfig(t), ListSpread: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("Source/Pods", func(t *testing.T) { sourcetest.Pods(t, source, sourceNode{b, put}) })
	t.Run("Source/Events", func(t *testing.T) {
		sourcetest.Events(t, source, func(t *testing.T, name string) int {
			t.Helper()
			var e struct{ Count int }
			b.Read(t, "/api/v1/namespaces/default/events/"+name, &e)
			return e.Count
		})
	})
}

// sourceNode is the node that the source is of.
type sourceNode struct {
	*fixture
	put func(t *testing.T, name, node string)
}

func (n sourceNode) Put(t *testing.T, name string) (uid string) {
	t.Helper()
	n.put(t, name, nodeName)
	m, err := n.Get(t.Context(), podsPath+"/"+name)
	if err != nil || m == nil {
		t.Fatal(m, err)
	}
	return m.UID
}

func (n sourceNode) Remove(t *testing.T, name string) { t.Helper(); n.remove(t, name) }

func (n sourceNode) Away(t *testing.T) (back func()) {
	t.Helper()
	if err := n.APIServer.Kill(); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := n.APIServer.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

const podsPath = "/api/v1/namespaces/default/pods"

// put makes a pod, or changes it.
func (b *fixture) put(times *int) func(t *testing.T, name, node string) {
	return func(t *testing.T, name, node string) {
		t.Helper()
		*times++
		await.Holds(t, patience, "put "+name, func(ctx context.Context) error {
			err := b.Ask(ctx, http.MethodPost, podsPath, peers.PodSpec{Name: name, NodeName: node, Image: image}.Manifest(), nil)
			if !peers.HasStatus(err, http.StatusConflict) {
				return err
			}
			var pod peerstest.Object
			if err := b.Ask(ctx, http.MethodGet, podsPath+"/"+name, nil, &pod); err != nil {
				return err
			}
			pod["metadata"].(peerstest.Object)["labels"] = peerstest.Object{"changed": fmt.Sprint(*times)}
			return b.Ask(ctx, http.MethodPut, podsPath+"/"+name, pod, nil)
		})
	}
}

func (b *fixture) remove(t *testing.T, name string) {
	t.Helper()
	b.Must(t, http.MethodDelete, podsPath+"/"+name, peerstest.Object{"gracePeriodSeconds": 0})
}
