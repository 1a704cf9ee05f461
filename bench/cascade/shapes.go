package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/ebb-agent/ebb/bench/contender"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/tools/peers"
)

// shape describes a family: its owners, which are ConfigMaps, and their dependents.
type shape struct {
	owners, each int
	levels       int // length of the chains of dependents
	dependent    gc.Type
}

// one is the shape of one owner with this many dependents.
func (b *fixture) one(dependents int) shape {
	return shape{owners: 1, each: dependents, levels: 1, dependent: b.followed}
}

func (s shape) dependents() int { return s.owners * s.each * s.levels }

var (
	pods   = gc.Type{APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespaced: true}
	things = gc.Type{APIVersion: "bench.example/v1", Kind: "Thing", Resource: "things", Namespaced: true}
)

// shapes returns the other shapes, each with about as many dependents.
func (o options) shapes() map[string]shape {
	tenth, third := max(o.dependents/10, 1), max(o.dependents/3, 1)
	return map[string]shape{
		"tens":   {tenth, 10, 1, contender.ConfigMaps},
		"chains": {1, third, 3, contender.ConfigMaps},
		"pods":   {1, o.dependents, 1, pods},
		"custom": {1, o.dependents, 1, things},
	}
}

// measureShapes measures background deletions only.
func measureShapes(ctx context.Context, b *fixture, f *figures) error {
	if err := b.allowShapes(ctx); err != nil {
		return err
	}
	f.Shapes = map[string]map[string]measured{}
	for name, s := range b.shapes() {
		b.follow(ctx, s.dependent)
		waves := waves{}
		for range b.rounds {
			for _, c := range []string{ebbBest, peerFast, peerBest} {
				if err := b.waves(ctx, c, s, waves, gc.Background); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
		f.Shapes[name] = waves.measured(gc.Background)
	}
	return nil
}

// allowShapes creates the ServiceAccount that Pods need, which a controller creates in other
// clusters, and a custom resource type.
func (b *fixture) allowShapes(ctx context.Context) error {
	account := map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "default"}}
	if err := peers.Request(ctx, b.Admin, http.MethodPost, b.CP.URL()+"/api/v1/namespaces/default/serviceaccounts", account, nil); err != nil {
		return err
	}
	if err := b.define(ctx, "things", "Thing"); err != nil {
		return err
	}
	return eventually(ctx, "a new type is not served", func() bool {
		return peers.Request(ctx, b.Admin, http.MethodGet, b.url(things), nil, nil) == nil
	})
}

// shapesMarkdown returns the table of other shapes. Rates that were not measured are "".
func (f figures) shapesMarkdown() string {
	rows := [][]string{{"background, objects a second", "ebb", "kube-controller-manager", "the same with 100 workers"}}
	for _, l := range [][2]string{
		{"tens", "500 owners of 10 each"}, {"chains", "one owner of 1,666 chains of three"}, {"pods", "one owner of 5,000 Pods"}, {"custom", "one owner of 5,000 custom resources"},
	} {
		of := f.Shapes[l[0]]
		rows = append(rows, []string{l[1], of[ebbBest].PerSecond.String(), of[peerFast].PerSecond.String(), of[peerBest].PerSecond.String()})
	}
	return result.Table(rows)
}

const shapesReport = `## Cascade: other shapes

As the table "both at their best" above, in background: medians, and in parentheses the least and the most.

`
