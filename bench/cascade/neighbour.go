package main

import (
	"context"
	"net/http"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/tools/peers"
)

// neighbourPause is the pause between two requests of the neighbour.
const neighbourPause = 20 * time.Millisecond

// neighbour is a user that API priority and fairness does not exempt.
const neighbour = "bench-neighbour"

func (b *fixture) letNeighbourRead(ctx context.Context) (err error) {
	if b.neighbour, err = b.CP.Client(neighbour); err != nil {
		return err
	}
	const group = "rbac.authorization.k8s.io"
	for resource, object := range map[string]map[string]any{
		"clusterroles": {"kind": "ClusterRole", "rules": []any{
			map[string]any{"apiGroups": []string{""}, "resources": []string{"namespaces"}, "verbs": []string{"get"}},
		}},
		"clusterrolebindings": {
			"kind":    "ClusterRoleBinding",
			"roleRef": map[string]any{"apiGroup": group, "kind": "ClusterRole", "name": neighbour}, "subjects": []any{map[string]any{"apiGroup": group, "kind": "User", "name": neighbour}},
		},
	} {
		object["apiVersion"], object["metadata"] = group+"/v1", map[string]any{"name": neighbour}
		if err := peers.Request(ctx, b.Admin, http.MethodPost, b.CP.URL()+"/apis/"+group+"/v1/"+resource, object, nil); err != nil {
			return err
		}
	}
	return eventually(ctx, "the neighbour may not read", func() bool { return b.askAsNeighbour(ctx) == nil })
}

// askAsNeighbour reads an object as the neighbour. The API server answers from etcd.
func (b *fixture) askAsNeighbour(ctx context.Context) error {
	return peers.Request(ctx, b.neighbour, http.MethodGet, b.CP.URL()+"/api/v1/namespaces/kube-system", nil, nil)
}

// besides calls do while the neighbour reads an object from etcd again and again. It returns how
// long each answer took, in ms.
func (b *fixture) besides(ctx context.Context, do func() error) (took []float64, err error) {
	asking, enough := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		for {
			began := time.Now()
			err := b.askAsNeighbour(asking)
			if asking.Err() != nil {
				err = nil
			} else if err == nil {
				took = append(took, float64(time.Since(began).Microseconds())/1e3)
			}
			if err != nil || benchmark.Pause(asking, neighbourPause) != nil {
				done <- err
				return
			}
		}
	}()
	err = do()
	enough()
	if asked := <-done; err == nil {
		err = asked
	}
	return took, err
}
