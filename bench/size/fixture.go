package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/contender"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/process"
)

// fixture is a control plane and its objects.
type fixture struct {
	*contender.Fixture
	options
	maker *maker
	there int // objects
}

func newFixture(ctx context.Context, o options) (_ *fixture, err error) {
	benchmark.Say("starting etcd, the API server and the controller manager")
	base, err := contender.NewFixture(ctx, peers.Config{Name: "bench-size"}, o.Options)
	if err != nil {
		return nil, err
	}
	b := &fixture{Fixture: base, options: o, maker: newMaker()}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	return b, b.Fill(ctx, func(yield func(runtime.Object) bool) {
		if !yield(contender.Namespace(b.maker.meta(abandoned, ""))) {
			return
		}
		for i := range namespaces {
			if !yield(contender.Namespace(b.maker.meta(fmt.Sprint("size-", i), ""))) {
				return
			}
		}
	})
}

// grow adds objects until the cluster has this many, with a tree for each contender.
func (b *fixture) grow(ctx context.Context, objects int, contenders []contender.Contender) error {
	benchmark.Say("writing %d objects into etcd, for %d in all", objects-b.there, objects)
	began := time.Now()
	err := b.Fill(ctx, func(yield func(runtime.Object) bool) {
		var special []runtime.Object
		for _, c := range contenders {
			special = append(special, b.maker.tree(treeOf(objects, c), dependents(objects))...)
		}
		for _, o := range special {
			if !yield(o) {
				return
			}
		}
		for range objects - b.there - len(special) {
			if !yield(b.maker.next()) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	// Without the trees, which the contenders will have collected.
	b.there = objects - len(contenders)*(dependents(objects)+1)
	u, err := b.CP.APIServer.Usage()
	benchmark.Say("the API server is ready after %.0f s in all, with %d MiB", time.Since(began).Seconds(), u.RSSBytes/process.MiB)
	return err
}

// treeOf returns the name of the namespace with a contender's tree.
func treeOf(objects int, c contender.Contender) string {
	return fmt.Sprintf("tree-%d-%s", objects, c.Name)
}

// abandoned is a namespace with only objects whose owner does not exist.
const abandoned = "abandoned"

// leaveBehind creates an object whose owner never existed.
func (b *fixture) leaveBehind(ctx context.Context) error {
	return peers.Request(ctx, b.Admin, http.MethodPost, b.CP.URL()+"/api/v1/namespaces/"+abandoned+"/configmaps", map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "left-behind", "ownerReferences": []any{map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "00000000-0000-4000-8000-000000000000",
		}}},
	}, nil)
}

// empty reports whether a namespace has no ConfigMaps and no Pods. If the API server is too busy to
// answer, empty returns false, so that it is called again.
func (b *fixture) empty(ctx context.Context, namespace string) (bool, error) {
	for _, resource := range []string{"configmaps", "pods"} {
		var list struct{ Items []struct{} }
		url := b.CP.URL() + "/api/v1/namespaces/" + namespace + "/" + resource + "?limit=1"
		err := peers.Request(ctx, b.Admin, http.MethodGet, url, nil, &list)
		var status *peers.StatusError
		if errors.As(err, &status) && (status.Code/100 == 5 || status.Code == http.StatusTooManyRequests) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if len(list.Items) > 0 {
			return false, nil
		}
	}
	return true, nil
}
