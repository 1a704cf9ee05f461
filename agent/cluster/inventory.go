package cluster

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
	"github.com/ebb-agent/ebb/runtime/machines"
)

// Machines reads the inventory of machines from the source that a configuration names.
type Machines func(ctx context.Context, from config.Inventory) (*nodes.Inventory, error)

// inventory is how the inventory of machines is read.
type inventory struct {
	read    Machines
	problem atomic.Pointer[string] // why it could not be read; empty: it was read
}

func readMachines(ctx context.Context, from config.Inventory) (*nodes.Inventory, error) {
	return machines.Source{File: from.File, URL: from.URL, CA: from.CAFile, Token: from.TokenFile, Command: from.Command, Timeout: time.Duration(from.Timeout)}.Read(ctx)
}

// inventoryUser is a collector that asks for the inventory.
type inventoryUser interface {
	Surveyed(now time.Time, id uint64, list *nodes.Inventory)
}

// readInventory reads the inventory in a goroutine of its own: it is no request to the API server,
// and may take long. The read ends with the loop.
func (c *Controller) readInventory(a gc.Action) {
	ctx := c.lifetime.following
	c.lifetime.group.Go(func() {
		out := answer{action: a, asOf: time.Now()}
		if c.gate.Open() && !c.gate.Awaits(a.Collector) {
			out.inventory = c.fetchInventory(ctx)
		}
		c.requests.answers <- out
	})
}

// fetchInventory reads the inventory; nil: it could not be read. A problem is logged once.
func (c *Controller) fetchInventory(ctx context.Context) *nodes.Inventory {
	list, err := c.inventory.read(ctx, c.gate.Settings().Collectors.Nodes.Inventory)
	if ctx.Err() != nil {
		return nil
	}
	problem := ""
	if err != nil {
		problem, list = err.Error(), nil
	}
	before := c.inventory.problem.Swap(&problem)
	switch failed := before != nil && *before != ""; {
	case err != nil && (!failed || *before != problem):
		c.log.Warn("cannot read the machine inventory: no Node is deleted", "reason", fmt.Sprintf("%.300s", problem))
	case err == nil && failed:
		c.log.Info("the machine inventory can be read again", "reason", "read", "machines", len(list.Machines), "time", list.Time)
	}
	c.metrics.inventory(list)
	return list
}

// inventoryRead passes the inventory to the collector that requested it.
func (c *Controller) inventoryRead(now time.Time, a answer) {
	if s, id := c.collectors.of(a.action.ID); s != nil {
		s.Interface.(inventoryUser).Surveyed(c.serverTime(now), id, a.inventory)
	}
}

func (m *Metrics) inventory(list *nodes.Inventory) {
	if list == nil {
		m.inventoryReads.WithLabelValues("failed").Inc()
		return
	}
	m.inventoryReads.WithLabelValues("done").Inc()
	m.inventoryTime.Set(float64(list.Time.Unix()))
	m.inventorySize.Set(float64(len(list.Machines)))
}
