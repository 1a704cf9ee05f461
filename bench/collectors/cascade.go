package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/contender"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/tools/peers"
)

// between is the time between two deletions of owners.
const between = 50 * time.Millisecond

// gone records when ConfigMaps were deleted.
type gone struct {
	mu sync.Mutex
	at map[string]time.Time // by name
}

func (g *gone) take(_ context.Context, batch []metadata.Event) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range batch {
		if e.Kind == metadata.Deleted {
			g.at[e.Object.Name] = time.Now()
		}
	}
	return nil
}

func (g *gone) when(name string) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.at[name]
}

// measureCascade measures how long cascades take, alone and while many Pods are due at once. ebb
// has the same settings in both.
func measureCascade(ctx context.Context, b *fixture, f figures) error {
	pods := kinds[0]
	c := b.ebb(pods, pods.all)
	err := c.Run(ctx, func(int) error { return b.cascades(ctx, f, "alone") })
	if err != nil {
		return err
	}
	long := time.Now().Add(-24 * time.Hour)
	if err := b.load(ctx, pods, b.pods, func(i int) time.Time { return long }); err != nil {
		return err
	}
	if b.audited, err = b.CP.SkipAudit(b.audited); err != nil {
		return err
	}
	return c.Run(ctx, func(int) error {
		if err := b.cascades(ctx, f, "beside"); err != nil {
			return err
		}
		left, err := b.listen(ctx, c, pods, 1)
		if err == nil {
			benchmark.Say("%d of %d Pods went meanwhile", len(left.deleted), b.pods)
		}
		return err
	})
}

// cascades creates owners with one dependent each, deletes the owners one after the other, and
// measures how soon each dependent is deleted. key names the figures: "alone", "beside" Pods that are due,
// "first_day" or "first_day_later".
func (b *fixture) cascades(ctx context.Context, f figures, key string) error {
	name := strings.ReplaceAll(key, "_", "-") // of objects
	client, err := b.Metadata()
	if err != nil {
		return err
	}
	defer client.Close()
	g := &gone{at: map[string]time.Time{}}
	defer contender.Follow(ctx, client, contender.ConfigMaps, g.take)()
	for i := range b.families {
		if err := b.family(ctx, name, i); err != nil {
			return err
		}
	}
	if err := benchmark.Until(ctx, 50*time.Millisecond, longest, "ebb has not listed everything", b.Ebb.Ready); err != nil {
		return err
	}
	deleted := make([]time.Time, b.families)
	for i := range b.families {
		deleted[i] = time.Now()
		if err := peers.Request(ctx, b.Admin, http.MethodDelete, b.configMaps()+"/"+owner(name, i), map[string]any{
			"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
		}, nil); err != nil {
			return err
		}
		if err := benchmark.Pause(ctx, between); err != nil {
			return err
		}
	}
	var all []float64
	for i := range b.families {
		if err := benchmark.Until(ctx, 10*time.Millisecond, longest, "a dependent stays", func(context.Context) (bool, error) {
			return !g.when(dependent(name, i)).IsZero(), nil
		}); err != nil {
			return err
		}
		all = append(all, float64(g.when(dependent(name, i)).Sub(deleted[i]).Microseconds())/1e3)
	}
	f.set("cascade_"+key+"_p50_ms", result.Percentile(all, 50))
	f.set("cascade_"+key+"_p99_ms", result.Percentile(all, 99))
	benchmark.Say("a cascade %s: %.1f ms at the median, %.1f at the 99th percentile", name, result.Percentile(all, 50), result.Percentile(all, 99))
	return nil
}

func (b *fixture) configMaps() string { return b.CP.URL() + "/api/v1/namespaces/bench-0/configmaps" }

func owner(name string, i int) string     { return fmt.Sprintf("owner-%s-%d", name, i) }
func dependent(name string, i int) string { return fmt.Sprintf("dependent-%s-%d", name, i) }

// family makes an owner and its dependent.
func (b *fixture) family(ctx context.Context, name string, i int) error {
	var answer struct{ Metadata struct{ UID string } }
	if err := peers.Request(ctx, b.Admin, http.MethodPost, b.configMaps(), map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": owner(name, i)}}, &answer); err != nil {
		return err
	}
	return peers.Request(ctx, b.Admin, http.MethodPost, b.configMaps(), map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": dependent(name, i), "ownerReferences": []any{map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "name": owner(name, i), "uid": answer.Metadata.UID}}}}, nil)
}
