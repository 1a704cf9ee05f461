package cluster

import (
	"context"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
	"github.com/ebb-agent/ebb/runtime/machines"
)

// Machines reads the inventory of machines from where a configuration says.
type Machines func(ctx context.Context, from config.Inventory) (*nodes.Inventory, error)

func readMachines(ctx context.Context, from config.Inventory) (*nodes.Inventory, error) {
	return machines.Source{File: from.File, URL: from.URL, CA: from.CAFile, Token: from.TokenFile, Command: from.Command, Timeout: time.Duration(from.Timeout)}.Read(ctx)
}

// surveyor is a collector that asks for the inventory.
type surveyor interface {
	Surveyed(now time.Time, id uint64, list *nodes.Inventory)
}

// askInventory reads it beside the workers: it is no request to the API server, and may take
// long. It ends with the loop.
func (c *Controller) askInventory(a gc.Action) {
	ctx := c.following
	c.group.Go(func() {
		out := answer{action: a, asOf: time.Now()}
		if c.door.open() && !c.door.waits(a.Collector) {
			out.inventory = c.inventory(ctx)
		}
		c.answers <- out
	})
}

// inventory reads it; nil: it could not be. A problem is said once.
func (c *Controller) inventory(ctx context.Context) *nodes.Inventory {
	list, err := c.machines(ctx, c.door.settings().Collectors.Nodes.Inventory)
	if ctx.Err() != nil {
		return nil
	}
	problem := ""
	if err != nil {
		problem, list = err.Error(), nil
	}
	before := c.unsurveyed.Swap(&problem)
	switch said := before != nil && *before != ""; {
	case err != nil && (!said || *before != problem):
		c.log.Warn("no Node is deleted: the inventory of machines cannot be read", "reason", short(problem))
	case err == nil && said:
		c.log.Info("the inventory of machines can be read again", "reason", "read", "machines", len(list.Machines), "time", list.Time)
	}
	c.metrics.surveyed(list)
	return list
}

// surveyed takes the answer.
func (c *Controller) surveyed(now time.Time, a answer) {
	i := slices.IndexFunc(c.sides.all, func(s *attached) bool { return s.serial == a.action.ID>>serialShift })
	if i < 0 {
		return // it was turned off
	}
	c.sides.all[i].Interface.(surveyor).Surveyed(c.serverTime(now), a.action.ID&(1<<serialShift-1), a.inventory)
}

func (m *Metrics) surveyed(list *nodes.Inventory) {
	if list == nil {
		m.inventoryReads.WithLabelValues("failed").Inc()
		return
	}
	m.inventoryReads.WithLabelValues("done").Inc()
	m.inventoryTime.Set(float64(list.Time.Unix()))
	m.inventorySize.Set(float64(len(list.Machines)))
}
