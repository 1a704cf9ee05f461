package journal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/runtime/wait"
)

// maxNamed bounds the types in one line of the log.
const maxNamed = 10

// sweepInterval is the least time between two sweeps: each asks every type for one object.
const sweepInterval = time.Hour

// runSweeps removes owners from the journal, until ctx ends. It removes those that were orphaned so
// long ago that no type can have an unseen dependent of theirs.
func (k *Keeper) runSweeps(ctx context.Context) {
	last := time.Now() // the entries of a predecessor count from now
	for {
		var oldest time.Time
		if k.graph.Do(ctx, func(_ time.Time, c *cascade.Collector) {
			for _, e := range c.Journal() {
				if oldest.IsZero() || e.Recorded.Before(oldest) {
					oldest = e.Recorded
				}
			}
		}) != nil {
			return
		}
		if oldest.IsZero() {
			select {
			case <-ctx.Done():
				return
			case <-k.grew:
			}
			continue
		}
		due := latest(last.Add(sweepInterval), oldest.Add(cascade.KeepOrphaned))
		if !wait.Sleep(ctx, time.Until(due)) {
			return
		}
		last = time.Now()
		if !k.gate.OwnersObserved() {
			k.sweep(ctx)
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// notifySweeper notifies runSweeps that the collector may have more entries.
func (k *Keeper) notifySweeper() {
	select {
	case k.grew <- struct{}{}:
	default:
	}
}

// sweep makes one sweep. A type that cannot be read, or a part of discovery that failed, may hide
// dependents. Then all entries are kept.
func (k *Keeper) sweep(ctx context.Context) {
	begun := time.Now()
	holders, err := k.graph.CaughtUp(ctx)
	if err != nil {
		return
	}
	without := config.Patterns(k.gate.Settings().OrphanWithout)
	maps.DeleteFunc(holders, func(name string, _ error) bool {
		resource, group, _ := strings.Cut(name, ".")
		return without.Match(resource, group)
	})
	if ctx.Err() == nil {
		k.swept(ctx, begun, holders)
	}
}

// swept has the collector forget old entries, unless something may hide dependents.
func (k *Keeper) swept(ctx context.Context, begun time.Time, holders map[string]error) {
	k.metrics.holders.Set(float64(len(holders)))
	if len(holders) > 0 {
		names := slices.Sorted(maps.Keys(holders))
		k.log.Warn("old entries stay in the journal of orphaned owners", "reason", "types that may have dependents cannot be read",
			"types", strings.Join(names[:min(len(names), maxNamed)], ", "), "of", len(names), "first", names[0], "error", fmt.Sprintf("%.300s", holders[names[0]]),
			"help", "fix them, or list those that hold no dependents in orphanWithout")
		return
	}
	_ = k.graph.Do(ctx, func(now time.Time, c *cascade.Collector) {
		if forgotten := c.Swept(now, begun); len(forgotten) > 0 {
			k.forgetNow(forgotten)
			k.log.Info("orphaned owners are removed from the journal", "reason", "every type has caught up", "owners", len(forgotten))
		}
	})
}
