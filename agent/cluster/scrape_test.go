package cluster

import (
	"maps"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
)

// waiting returns the metric of waiting owners from a scrape; nil if there is none.
func (b *fixture) waiting() map[string]float64 { return b.scraped("ebb_controller_owners_waiting") }

// scraped returns the values of a metric with one label from a scrape.
func (b *fixture) scraped(name string) map[string]float64 {
	b.t.Helper()
	families, err := b.c.metrics.Registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	var found map[string]float64
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		found = map[string]float64{}
		for _, m := range f.GetMetric() {
			found[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
	}
	return found
}

func TestOwnersWaiting(t *testing.T) {
	observe := func(c *config.Config) { c.Mode = config.Observe }
	inBubble(t, observe, nil, func(b *fixture) {
		b.api.put(gc.Object{APIVersion: "v1", Kind: "Pod", Namespace: "a", Name: "stranded",
			Owners: []gc.Reference{{APIVersion: "gone.test/v1", Kind: "Gadget", Name: "g", UID: "uid-of-gone"}}})
		owner := func(name, finalizer string) gc.Object {
			return b.api.put(gc.Object{APIVersion: "v1", Kind: "Pod", Namespace: "a", Name: name, Terminating: true, Finalizers: []string{finalizer}})
		}
		first := owner("first", gc.ForegroundFinalizer)
		owner("second", gc.ForegroundFinalizer)
		owner("third", gc.OrphanFinalizer)
		b.api.put(gc.Object{APIVersion: "v1", Kind: "Pod", Namespace: "a", Name: "dependent",
			Owners: []gc.Reference{{APIVersion: "v1", Kind: "Pod", Name: "first", UID: first.UID, Block: true}}})
		time.Sleep(time.Minute)
		if got, want := b.waiting(), map[string]float64{"foregroundDeletion": 2, "orphan": 1}; !maps.Equal(got, want) {
			t.Errorf("%v wait, want %v", got, want)
		}
		if got, want := b.scraped("ebb_controller_owner_references_unresolved"), map[string]float64{"owner_type_not_served": 1, "owner_namespaced": 0}; !maps.Equal(got, want) {
			t.Errorf("%v references are unresolved, want %v", got, want)
		}
		if err := b.c.Configure(b.t.Context(), enforcing()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got, want := b.waiting(), map[string]float64{"foregroundDeletion": 0, "orphan": 0}; !maps.Equal(got, want) {
			t.Errorf("%v wait after all that could be done, want %v", got, want)
		}
	})
}

// Alerts that page ask which collectors may act: that takes the collector's mode and the
// controller's.
func TestCollectorsThatEnforce(t *testing.T) {
	inBubble(t, collecting(config.Enforce), withJobs, func(b *fixture) {
		enforce := func() map[string]float64 { return b.scraped("ebb_controller_collector_enforcing") }
		want := map[string]float64{"owners": 1, "pods": 0, "jobs": 1, "csrs": 0, "leases": 0, "nodes": 0, "volumes": 0}
		if got := enforce(); !maps.Equal(got, want) {
			b.t.Errorf("enforcing are %v, want %v", got, want)
		}
		c := enforcing()
		collecting(config.Enforce)(&c)
		c.Mode = config.Observe
		b.want("configured", b.c.Configure(b.t.Context(), c), nil)
		if got := enforce(); got["jobs"] != 0 || got["owners"] != 0 || len(got) != len(want) {
			b.t.Errorf("in mode observe, enforcing are %v", got)
		}
	})
}
