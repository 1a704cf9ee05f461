package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/contender"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/tools/peers"
)

// nobody is the UID of an owner that never existed.
const nobody = "00000000-0000-4000-8000-000000000000"

// startTime returns how many seconds a contender takes from its start until it deletes an object
// whose owner does not exist.
func (b *fixture) startTime(ctx context.Context, c contender.Contender) (s float64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, fmt.Errorf("%s deleted nothing", c.Name))
	defer cancel()
	b.families++
	name := fmt.Sprintf("left-behind-%d", b.families)
	dependent, err := b.create(ctx, contender.ConfigMaps, name, gc.Reference{APIVersion: "v1", Kind: "ConfigMap", Name: "nobody", UID: nobody})
	if err != nil {
		return 0, err
	}
	b.watch.look(family{dependents: []made{dependent}})
	if err := b.watch.until(ctx, func(p progress) bool { return p.there == 1 }); err != nil {
		return 0, err
	}
	b.watch.restart()
	began := time.Now()
	_, stop, err := c.Start(ctx)
	if err != nil {
		return 0, err
	}
	err = b.watch.until(ctx, func(p progress) bool { return p.there == 0 })
	s = b.watch.progress().last.Sub(began).Seconds()
	benchmark.Say("%-12s %.2f s from its start to the first deletion", c.Name, s)
	return s, errors.Join(err, stop())
}

func (b *fixture) starts(ctx context.Context, rounds int) (ebb, peer float64, err error) {
	var times [2][]float64
	for range rounds {
		for i, c := range []string{ebbShipped, peerFast} {
			s, err := b.startTime(ctx, b.contender(c))
			if err != nil {
				return 0, 0, err
			}
			times[i] = append(times[i], s)
		}
	}
	return median(times[0]), median(times[1]), nil
}

func measureStarts(ctx context.Context, b *fixture, f *figures) (err error) {
	f.Ready, f.PeerReady, err = b.starts(ctx, b.rounds)
	return err
}

// measureBroken measures starts beside a type that cannot be listed. The type's objects are stored
// in a version that only a webhook could convert, and no such webhook exists.
func measureBroken(ctx context.Context, b *fixture, f *figures) (err error) {
	if err := b.breakType(ctx); err != nil {
		return err
	}
	f.ReadyBroken, f.PeerReadyBroken, err = b.starts(ctx, 1)
	return err
}

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

func version(name string, storage bool) map[string]any {
	return map[string]any{"name": name, "served": true, "storage": storage, "schema": map[string]any{
		"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
	}}
}

// define makes a type of custom resources.
func (b *fixture) define(ctx context.Context, plural, kind string) error {
	return peers.Request(ctx, b.Admin, http.MethodPost, b.CP.URL()+definitions, map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + ".bench.example"},
		"spec": map[string]any{
			"group": "bench.example", "scope": "Namespaced", "names": map[string]any{"plural": plural, "singular": strings.ToLower(kind), "kind": kind},
			"versions": []any{version("v1", true)},
		},
	}, nil)
}

func (b *fixture) breakType(ctx context.Context) error {
	if err := b.define(ctx, "broken", "Broken"); err != nil {
		return err
	}
	object := map[string]any{"apiVersion": "bench.example/v1", "kind": "Broken", "metadata": map[string]any{"name": "one"}}
	if err := eventually(ctx, "objects of a new type are refused", func() bool {
		return peers.Request(ctx, b.Admin, http.MethodPost, b.CP.URL()+"/apis/bench.example/v1/namespaces/default/broken", object, nil) == nil
	}); err != nil {
		return err
	}
	// The object is stored as v1 and v2 is preferred, so that a list must convert it.
	spec := map[string]any{"versions": []any{version("v2", true), version("v1", false)}, "conversion": map[string]any{
		"strategy": "Webhook", "webhook": map[string]any{
			"conversionReviewVersions": []string{"v1"}, "clientConfig": map[string]any{"url": "https://127.0.0.1:1/convert"},
		},
	}}
	if err := peers.Request(ctx, b.Admin, http.MethodPatch, b.CP.URL()+definitions+"/broken.bench.example", map[string]any{"spec": spec}, nil); err != nil {
		return err
	}
	// The type is not broken until a list fails. The API server answers 429, because it cannot fill
	// its cache.
	return eventually(ctx, "a broken type can be listed", func() bool {
		err := peers.Request(ctx, b.Admin, http.MethodGet, b.CP.URL()+"/apis/bench.example/v2/broken", nil, nil)
		var status *peers.StatusError
		return errors.As(err, &status) && status.Code != http.StatusNotFound
	})
}

func eventually(ctx context.Context, what string, holds func() bool) error {
	return benchmark.Until(ctx, 50*time.Millisecond, 15*time.Second, what, func(context.Context) (bool, error) { return holds(), nil })
}
