package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// counting is a runtime that counts what it is asked.
type counting struct {
	*fake.Runtime
	inventories, workloads, resolves *atomic.Int64
	resolve                          error
}

func newCounting(w *world) counting {
	c := counting{Runtime: w.rt, inventories: new(atomic.Int64), workloads: new(atomic.Int64), resolves: new(atomic.Int64)}
	w.dial = func(context.Context) (Runtime, error) { return c, nil }
	return c
}

func (c counting) Inventory(ctx context.Context) (*inventory.Inventory, error) {
	c.inventories.Add(1)
	return c.Runtime.Inventory(ctx)
}

func (c counting) Workloads(ctx context.Context) (inventory.Workloads, error) {
	c.workloads.Add(1)
	return c.Runtime.Workloads(ctx)
}

func (c counting) ResolveLayer(ctx context.Context, l inventory.Layer) (inventory.LayerRoot, error) {
	c.resolves.Add(1)
	if c.resolve != nil {
		return inventory.LayerRoot{}, c.resolve
	}
	return c.Runtime.ResolveLayer(ctx, l)
}

// Layers that have no directory, as on a snapshotter that copies, are asked for once,
// and again with another runtime. Those that cannot be found for a while are asked for
// now and then. Neither makes the agent read the node.
func TestLayersThatCannotBeResolved(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		most int64 // questions for two layers in six hours
	}{
		"never":    {fmt.Errorf("native: %w", inventory.ErrUnsupported), 2},
		"for long": {inventory.ErrNoSpace, 2 * 6 * 13},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.cfg.ReconcileInterval = w.cfg.ReconcileInterval * 12 // an hour
				rt := newCounting(w)
				rt.resolve = c.err
				w.dial = func(context.Context) (Runtime, error) { return rt, nil }
				w.add("a", 40)
				w.add("b", 40)
				w.up()
				w.pass(time.Minute)
				before := rt.inventories.Load()
				w.pass(6 * time.Hour)
				if n := rt.inventories.Load() - before; n > 7 {
					t.Errorf("the node was read %d times in six hours with a reconcile each", n)
				}
				if n := rt.resolves.Load(); n < 2 || n > c.most {
					t.Errorf("two layers were asked for %d times", n)
				}
				w.wantLogged(1, "level=WARN", "a layer's directory cannot be found yet")
				asked := rt.resolves.Load()
				w.rt.CutEvents(errors.New("restarted"))
				w.rt.ResumeEvents() // it may be another one
				w.pass(time.Hour + 10*time.Minute)
				if n := rt.resolves.Load() - asked; n < 2 {
					t.Errorf("of another runtime they were asked for %d times", n)
				}
			})
		})
	}
}

// What lives and dies in other namespaces is nobody's business here.
func TestOthersContainersAreNotLookedFor(t *testing.T) {
	inWorld(t, func(w *world) {
		rt := newCounting(w)
		w.rt.Import("moby", fake.Image{Name: "build", Layers: []fake.Layer{{Name: "build", Bytes: 1}}})
		w.add("a", 40)
		w.up()
		w.pass(time.Minute)
		live := func(namespace, image string) int64 {
			before := rt.workloads.Load()
			for range 100 {
				w.rt.Run(namespace, "c", image)
				w.rt.Stop(namespace, "c")
				w.rt.Delete(namespace, "c")
				w.pass(200 * time.Millisecond)
			}
			return rt.workloads.Load() - before
		}
		if n := live("moby", "build"); n > 1 { // the reconcile may come
			t.Errorf("dead containers were looked for %d times because of others", n)
		}
		if n := live(fake.CRINamespace, "a"); n < 50 {
			t.Errorf("dead containers were looked for %d times while 100 died", n)
		}
	})
}

// With containers.enabled: false nobody waits for what has ended, so that nothing
// notes it.
func TestEndsAreNotNotedInVain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Containers.Enabled = false
		rt := newCounting(w)
		w.add("a", 40)
		w.up()
		for n := range 500 {
			id := fmt.Sprint("c", n)
			w.rt.Run(fake.CRINamespace, id, "a")
			w.rt.Stop(fake.CRINamespace, id)
			w.rt.Delete(fake.CRINamespace, id)
		}
		w.pass(time.Hour)
		if n := w.agent.workloads.Unnoted(); n > 0 {
			t.Errorf("%d ended containers are remembered", n)
		}
		if n := rt.workloads.Load(); n > 0 {
			t.Errorf("dead containers were looked for %d times", n)
		}
	})
}

// Do gives up after half a minute, as the real one does.
func (c counting) Do(ctx context.Context, s container.Step) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return c.Runtime.Do(ctx, s)
}

// A hundred sandboxes that cannot be torn down hold nobody up until the last of them
// has failed: each hangs for half a minute.
func TestManySandboxesThatHang(t *testing.T) {
	inWorld(t, func(w *world) {
		newCounting(w)
		w.pods = &fakePods{}
		for n := range 100 {
			name := fmt.Sprintf("hung-%02d", n)
			w.deadPod(name)
			w.rt.Hang("s-" + name)
		}
		w.up()
		w.pass(5 * time.Second)
		w.deadPod("late")
		w.rt.Exit("c-late")
		w.pass(3 * time.Minute)
		gone := w.did()
		for n := range 100 {
			if id := fmt.Sprintf("c-hung-%02d", n); !slices.Contains(gone, id) {
				t.Errorf("%s is still there after three minutes", id)
			}
		}
		if !slices.Contains(gone, "s-late") {
			t.Error("a sandbox that came meanwhile is still there after three minutes")
		}
		w.pass(time.Hour)
		failed := w.metric("ebb_node_workload_removal_failures_total", "sandbox")
		w.pass(10 * time.Hour)
		if n := w.metric("ebb_node_workload_removal_failures_total", "sandbox") - failed; n > 100*11 {
			t.Errorf("%v removals failed in ten hours", n)
		}
	})
}
