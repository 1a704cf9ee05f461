package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/leases"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// withNodes has the API server serve Nodes and what they hang on: eight that are ready, and
// two whose machines are gone.
func withNodes(f *fake) {
	withJobs(f)
	f.types = append(f.types, gc.Type{APIVersion: "v1", Kind: "Node", Resource: "nodes"},
		gc.Type{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Resource: "leases", Namespaced: true},
		gc.Type{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment", Resource: "volumeattachments"})
	old := time.Now().AddDate(0, -1, 0)
	for _, name := range []string{"ready-0", "ready-1", "ready-2", "ready-3", "ready-4", "ready-5", "ready-6", "ready-7", "gone-1", "gone-2"} {
		ready := name[:5] == "ready"
		f.fields["node-"+name] = nodes.Node{Ready: ready, Since: old, Created: old, Labels: []string{"decommissioned="}}
		f.store(gc.Object{APIVersion: "v1", Kind: "Node", Name: name, UID: "node-" + name})
		f.fields["lease-"+name] = leases.Lease{Holder: name, Expires: old}
		f.store(gc.Object{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: "kube-node-lease", Name: name, UID: "lease-" + name})
	}
}

func collectingNodes(m config.Mode) func(*config.Config) {
	return func(c *config.Config) {
		c.Collectors.Nodes.Mode, c.Collectors.Nodes.Label, c.Collectors.Nodes.Inventory.File = m, "decommissioned", "/inventory"
		c.Collectors.Jobs.Mode = config.Enforce
	}
}

// machinesThere answers with the machines of the Nodes that are ready, and counts.
func (b *fixture) machinesThere() *atomic.Int32 {
	asked := new(atomic.Int32)
	b.asks(func(context.Context, config.Inventory) (*nodes.Inventory, error) {
		asked.Add(1)
		return readyMachines(), nil
	})
	return asked
}

func readyMachines() *nodes.Inventory {
	list := &nodes.Inventory{Time: time.Now()}
	for i := range 8 {
		list.Machines = append(list.Machines, nodes.Machine{Name: fmt.Sprint("ready-", i)})
	}
	return list
}

// asks has the inventory read by m.
func (b *fixture) asks(m Machines) {
	defer b.api.lock()()
	b.api.machines = m
}

// inventory reads it as it is set.
func (f *fake) inventory(ctx context.Context, from config.Inventory) (*nodes.Inventory, error) {
	f.mu.Lock()
	m := f.machines
	f.mu.Unlock()
	return m(ctx, from)
}

// nodesThere are how many Nodes are.
func (b *fixture) nodesThere() (n int) {
	defer b.api.lock()()
	for _, o := range b.api.objects {
		if o.Kind == "Node" {
			n++
		}
	}
	return n
}

// staleNodes are how many Nodes are, by what is made of them.
func (b *fixture) staleNodes() map[gc.Reason]int {
	b.t.Helper()
	list, err := b.c.Collectors(b.t.Context(), 0, 0)
	i := slices.IndexFunc(list, func(s CollectorStatus) bool { return s.Collector == nodes.Name.String() })
	if err != nil || i < 0 {
		b.t.Fatalf("%v, %v", list, err)
	}
	return list[i].Counts
}

// TestNodes: what is not in the inventory goes, one an hour of so few.
func TestNodes(t *testing.T) {
	inBubble(t, collectingNodes(config.Enforce), withNodes, func(b *fixture) {
		asked := b.machinesThere()
		b.after(nodes.WatchFor - 10*time.Second)
		b.want("asked within the quarantine", asked.Load(), 0)
		b.after(time.Minute)
		b.want("asked", asked.Load(), 1)
		b.want("there", b.nodesThere(), 9)
		b.want("stale", b.staleNodes()[nodes.TooMany], 1)
		b.after(time.Hour)
		b.want("asked", asked.Load(), 2)
		b.want("there", b.nodesThere(), 8)
		b.after(24 * time.Hour)
		b.want("asked", asked.Load(), 2)
		b.want("there", b.nodesThere(), 8)
		b.metric("inventory_machines", 8)
	})
}

// TestNodesObserved: in mode observe the planned deletions are reported once, and the inventory is
// not asked again and again.
func TestNodesObserved(t *testing.T) {
	inBubble(t, collectingNodes(config.Observe), withNodes, func(b *fixture) {
		asked := b.machinesThere()
		b.after(48 * time.Hour)
		b.want("there", b.nodesThere(), 10)
		b.want("logged", b.logged("would have been deleted"), 2)
		b.want("asked", asked.Load(), 1)
	})
}

// TestNodesAfterRestore: nothing is asked for until a person has confirmed, and not by who
// leads next either.
func TestNodesAfterRestore(t *testing.T) {
	m := &memory{}
	inBubbleWith(t, m, collectingNodes(config.Enforce), withNodes, func(b *fixture) {
		asked := b.machinesThere()
		b.restore()
		b.after(48 * time.Hour)
		b.want("asked", asked.Load(), 0)
		b.want("there", b.nodesThere(), 10)
		b.metric("restore_unconfirmed", 1)
		o := gc.Object{APIVersion: "v1", Kind: "Node", Name: "gone-1", UID: "node-gone-1"}
		b.want("explained", b.found(o)[0].Held != "", true)
	})
	inBubbleWith(t, m, collectingNodes(config.Enforce), withNodes, func(b *fixture) {
		asked := b.machinesThere()
		b.after(48 * time.Hour)
		b.want("asked", asked.Load(), 0)
		b.want("there", b.nodesThere(), 10)
		b.want("confirmed", b.c.ConfirmRestore(b.t.Context()), true)
		b.metric("restore_unconfirmed", 0)
		b.after(2 * time.Hour)
		b.want("there", b.nodesThere(), 8)
	})
}

// TestInventoryFails: a problem with it is reported once, the requests back off, and a request
// that hangs does not block the loop and ends with it.
func TestInventoryFails(t *testing.T) {
	inBubble(t, func(c *config.Config) {
		collectingNodes(config.Enforce)(c)
		c.Concurrency = config.Concurrency{Start: 1, Max: 1}
	}, withNodes, func(b *fixture) {
		var asked, mode atomic.Int32
		const page, hangs, good = 0, 1, 2
		b.asks(func(ctx context.Context, _ config.Inventory) (*nodes.Inventory, error) {
			asked.Add(1)
			switch mode.Load() {
			case hangs:
				<-ctx.Done()
				return nil, ctx.Err()
			case good:
				return readyMachines(), nil
			}
			return nil, errors.New("an HTML page came")
		})
		b.after(24 * time.Hour)
		if n := asked.Load(); b.logged("an HTML page came") != 1 || n < 100 || n > 200 {
			t.Errorf("asked %d times, logged %d times", n, b.logged("an HTML page came"))
		}
		mode.Store(hangs)
		b.after(time.Hour)
		list := b.jobs(20, time.Second)
		b.after(time.Minute)
		b.want("Jobs left", b.left(list), 0)
		b.want("there", b.nodesThere(), 10)
		b.want("stale", b.staleNodes()[nodes.AskingInventory], 2)
		b.configure(collectingNodes(config.Off))
		b.configure(collectingNodes(config.Enforce)) // the answer to the first is not the second's
		mode.Store(page)
		b.after(time.Hour)
		mode.Store(good)
		b.after(2 * time.Hour)
		b.want("there", b.nodesThere(), 8)
		b.want("logged", b.logged("can be read again"), 1)
	})
}
