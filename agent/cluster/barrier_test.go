package cluster

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/cascade"
)

// A type that cannot be read holds orphaning, and nothing else, until it can be,
// or somebody says to go on without it.
func TestBarrierHeld(t *testing.T) {
	secret := errors.New(`secrets is forbidden: User "ebb" cannot list resource "secrets"`)
	for name, tc := range map[string]struct {
		without []string
		end     func(*bed)
		partial bool
	}{
		"readable again":     {end: func(b *bed) { b.api.fault("Secret", nil) }},
		"overridden":         {end: func(b *bed) { b.override() }},
		"overridden by name": {end: func(b *bed) { b.override("secrets") }},
		"the type went":      {end: func(b *bed) { b.serve(b.api.types[:3]...) }},
		"configured":         {end: func(b *bed) { b.configure(func(c *config.Config) { c.OrphanWithout = []string{"secrets"} }) }},
		"configured before":  {without: []string{"*"}},
		"part of discovery":  {partial: true, end: func(b *bed) { b.override("*.far.example") }},
		"discovered at last": {partial: true, end: func(b *bed) { defer b.api.lock()(); b.api.partial = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *config.Config) { c.OrphanWithout = append(c.OrphanWithout, tc.without...) }, func(f *fake) {
				f.types = append(f.types, cascade.Type{APIVersion: "v1", Kind: "Secret", Resource: "secrets", Namespaced: true})
				if tc.partial {
					f.partial = map[string]error{"far.example/v1": errors.New("503"), "metrics.k8s.io/v1": errors.New("503")}
				} else {
					f.broken["Secret"] = secret
				}
			}, func(b *bed) {
				owner, background := b.api.put(set("s")), b.api.put(set("t"))
				pods, gone := b.pods(owner, 10), b.pods(background, 10)
				b.api.remove(owner, cascade.Orphan)
				b.api.remove(background, cascade.Background)
				b.after(10 * time.Minute)
				b.want("pods left", b.left(pods), 10)
				b.want("pods of the other left", b.left(gone), 0)
				if tc.end == nil {
					b.want("owner is there", b.api.get(owner) != nil, false)
					return
				}
				b.want("owner is there", b.api.get(owner) != nil, true)
				b.want("why", b.explain(owner), "waits_for_barrier")
				b.want("events", len(b.api.notices), 1)
				b.want("event", b.api.notices[0].Reason+" "+b.api.notices[0].Object.Name, eventHeld+" s")
				b.want("said", b.said("owners wait to be orphaned"), 1)
				b.metric("barrier_holders", 1)
				if age := b.c.metrics.barrierAge(); age < 599 {
					t.Errorf("age %v", age)
				}
				tc.end(b)
				b.after(time.Minute)
				b.want("owner is there afterwards", b.api.get(owner) != nil, false)
				b.metric("barrier_holders", 0)
				b.want("age", b.c.metrics.barrierAge(), 0)
			})
		})
	}
}

// A type that neither catches up nor fails is named after a while, and can be gone
// on without at once.
func TestBarrierSlow(t *testing.T) {
	for name, without := range map[string][]string{"by hand": nil, "by configuration": {"pods"}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *config.Config) { c.OrphanWithout = without }, func(f *fake) { f.stuck = "Pod" }, func(b *bed) {
				owner := b.api.put(set("s"))
				pods := b.pods(owner, 3)
				b.api.remove(owner, cascade.Orphan)
				b.after(slowAfter - time.Second)
				b.want("owner is there", b.api.get(owner) != nil, true)
				b.metric("barrier_holders", 0)
				b.after(2 * time.Second)
				if without == nil {
					b.metric("barrier_holders", 1)
					b.want("owner is there", b.api.get(owner) != nil, true)
					b.override()
					b.after(10 * time.Millisecond)
				}
				b.want("owner is there", b.api.get(owner) != nil, false)
				b.want("pods left", b.left(pods), 3)
				b.metric("barrier_overrides_total", 1)
			})
		})
	}
}

// Each barrier reads everything: they do not follow each other without a rest.
func TestBarriersRest(t *testing.T) {
	inBubble(t, nil, func(f *fake) { f.stuck = "Pod" }, func(b *bed) {
		first, second := b.api.put(set("s")), b.api.put(set("t"))
		b.api.remove(first, cascade.Orphan)
		b.after(3 * time.Second)
		unlock := b.api.lock()
		b.api.stuck = ""
		b.api.changed.Broadcast()
		unlock()
		b.after(10 * time.Millisecond)
		b.want("first is there", b.api.get(first) != nil, false)
		b.api.remove(second, cascade.Orphan)
		b.after(2 * time.Second)
		b.want("second is there", b.api.get(second) != nil, true)
		b.after(2 * time.Second)
		b.want("second is there", b.api.get(second) != nil, false)
	})
}

func (b *bed) override(names ...string) {
	b.t.Helper()
	var gone []string
	_ = b.c.query(b.t.Context(), func(time.Time) { gone = b.c.override(names) })
	b.want("overridden", len(gone), 1)
}

func (b *bed) configure(change func(*config.Config)) {
	b.t.Helper()
	c := enforcing()
	change(&c)
	b.want("configured", b.c.Configure(b.t.Context(), c), nil)
}

// serve other types from now on; a changed definition tells of it.
func (b *bed) serve(types ...cascade.Type) {
	unlock := b.api.lock()
	b.api.types = types
	unlock()
	b.api.put(cascade.Object{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: fmt.Sprint("d", b.api.version)})
}
