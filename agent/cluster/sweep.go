package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/wait"
)

const (
	// sweepInterval is the least time between two sweeps: each asks every type for one object.
	sweepInterval = time.Hour
	// sweepConcurrency bounds the types that are asked side by side.
	sweepConcurrency = 16
	// sweepTimeout bounds how long a type may take to catch up: bookmarks come once a
	// minute, and an aggregated type is listed.
	sweepTimeout = 5 * time.Minute
)

// sweepJournal takes owners out of the journal, until ctx ends: those that were orphaned
// so long ago that no type can have a dependent of theirs that was not seen.
func (c *Controller) sweepJournal(ctx context.Context) {
	last := time.Now() // what a predecessor recorded begins to count now
	for {
		var oldest time.Time
		if c.loop.do(ctx, func(time.Time) {
			for _, e := range c.owners.Journal() {
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
			case <-c.orphans.grew:
			}
			continue
		}
		due := latest(last.Add(sweepInterval), oldest.Add(cascade.KeepOrphaned))
		if !wait.Sleep(ctx, time.Until(due)) {
			return
		}
		last = time.Now()
		if !c.gate.OwnersObserved() {
			c.sweep(ctx)
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// notifySweeper says that something was recorded.
func (c *Controller) notifySweeper() {
	select {
	case c.orphans.grew <- struct{}{}:
	default:
	}
}

// sweep once. A type that cannot be read, and a part of discovery that failed, hold all
// entries, for they may hide dependents.
func (c *Controller) sweep(ctx context.Context) {
	begun := time.Now()
	holders := map[string]error{}
	if err := c.discover(ctx); err != nil {
		holders["discovery"] = err
	}
	var followed map[string]*following
	if c.loop.do(ctx, func(time.Time) {
		followed = c.followed()
		for groupVersion, err := range c.types.partial {
			holders["*."+gc.GroupOf(groupVersion)] = err
		}
	}) != nil {
		return
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, sweepConcurrency)
	for name, f := range followed {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := catchUp(ctx, f); err != nil {
				mu.Lock()
				defer mu.Unlock()
				holders[name] = err
			}
		})
	}
	all.Wait()
	without := config.Patterns(c.gate.Settings().OrphanWithout)
	maps.DeleteFunc(holders, func(name string, _ error) bool {
		resource, group, _ := strings.Cut(name, ".")
		return without.Match(resource, group)
	})
	if ctx.Err() == nil {
		c.swept(ctx, begun, holders)
	}
}

// followed are the types that are followed, by name.
func (c *Controller) followed() map[string]*following {
	m := map[string]*following{}
	for _, s := range c.types.all {
		if s.following != nil {
			m[s.name()] = s.following
		}
	}
	return m
}

func catchUp(ctx context.Context, f *following) error {
	ctx, cancel := context.WithTimeoutCause(ctx, sweepTimeout, errors.New("it did not catch up in time"))
	defer cancel()
	return f.CatchUp(ctx)
}

// swept has the collector forget, unless something holds the entries.
func (c *Controller) swept(ctx context.Context, begun time.Time, holders map[string]error) {
	c.metrics.journalHolders.Set(float64(len(holders)))
	if len(holders) > 0 {
		name := slices.Sorted(maps.Keys(holders))[0]
		c.log.Warn("the journal of orphaned owners keeps what is old", "reason", "types cannot be read that may hold dependents",
			"types", firstNames(slices.Collect(maps.Keys(holders))), "first", name, "error", truncate(fmt.Sprint(holders[name])),
			"help", "fix them, or list those that hold no dependents in orphanWithout")
		return
	}
	_ = c.loop.do(ctx, func(now time.Time) {
		if forgotten := c.owners.Swept(now, begun); len(forgotten) > 0 {
			c.orphans.forgetNow(forgotten)
			c.log.Info("orphaned owners are forgotten", "reason", "every type has caught up", "owners", len(forgotten))
		}
	})
}
