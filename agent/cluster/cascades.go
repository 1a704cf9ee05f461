package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/events"
	"github.com/ebb-agent/ebb/agent/cluster/gate"
	"github.com/ebb-agent/ebb/policy/gc"
)

// maxCascades bounds the cascades that /cascades names.
const maxCascades = 100

// CascadeStatus is what the cascade of a root owner has spent recently.
type CascadeStatus struct {
	Root      *gate.ObjectName `json:"root"`
	Deletions int              `json:"deletions"` // since its envelope was last full
	Left      int              `json:"left"`      // of the burst
	Slowed    bool             `json:"slowed"`
	Waiting   int              `json:"waiting,omitempty"` // deletions that wait for their turn
	GoesOn    *time.Time       `json:"goesOn,omitempty"`
}

// Cascades returns the roots with the most deletions recently, most first, and at most maxCascades.
func (c *Controller) Cascades(ctx context.Context) (list []CascadeStatus, err error) {
	list = []CascadeStatus{}
	err = c.loop.query(ctx, func(now time.Time) {
		for _, e := range c.gate.Cascades(now, maxCascades) {
			s := CascadeStatus{Root: gate.Named(e.Root), Deletions: e.Deletions, Left: e.Left, Slowed: e.Slowed}
			if n, until := c.owners.SlowedOf(e.Root.UID); n > 0 {
				s.Waiting, s.GoesOn = n, &until
			}
			list = append(list, s)
		}
	})
	return list, err
}

// warnExcluded reports a deleted owner that only excluded objects hold.
func (c *Controller) warnExcluded(a gc.Action) {
	var names []string
	for _, o := range c.owners.Holding(a.Object) {
		names = append(names, gate.Describe(o))
	}
	c.log.Info("a deleted owner waits for dependents that are excluded from collection", "reason", string(a.Reason), "owner", gate.Describe(a.Object), "uid", a.Object.UID, "holders", firstNames(names))
	c.events.Warn(a.Object, events.Excluded, fmt.Sprintf(
		"its deletion waits for dependents that are excluded from collection: %s", firstNames(names)))
}

// warnGivenUp reports a foreground deletion that ends although some types with possible dependents
// could not be listed.
func (c *Controller) warnGivenUp(a gc.Action) {
	types := c.unreadableTypes()
	if types == "" {
		types = "some types"
	}
	c.events.Warn(a.Object, events.GivenUp, "its foreground deletion ends without these types, which could not be listed for a long time and may have dependents: "+types)
}
