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
)

const (
	// sweepGap is the least time between two sweeps: each asks every type for one object.
	sweepGap = time.Hour
	// sweepAtOnce bounds the types that are asked side by side.
	sweepAtOnce = 16
	// sweepTimeout bounds how long a type may take to catch up: bookmarks come once a
	// minute, and an aggregated type is listed.
	sweepTimeout = 5 * time.Minute
)

// sweepJournal takes owners out of the journal, until ctx ends: those that were orphaned
// so long ago that no type can have a dependent of theirs that was not told of.
func (c *Controller) sweepJournal(ctx context.Context) {
	last := time.Now() // what a predecessor recorded begins to count now
	for {
		var oldest time.Time
		if c.enter(ctx, func(time.Time) {
			for _, e := range c.collector.Journal() {
				if oldest.IsZero() || e.Recorded.Before(oldest) {
					oldest = e.Recorded
				}
			}
		}) != nil {
			return
		}
		if oldest.IsZero() {
			if !await(ctx, c.recorded, 0) {
				return
			}
			continue
		}
		due := later(last.Add(sweepGap), oldest.Add(cascade.KeepOrphaned))
		if !sleep(ctx, time.Until(due)) {
			return
		}
		last = time.Now()
		if !c.door.observes() {
			c.sweep(ctx)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sweepSoon tells that something was recorded.
func (c *Controller) sweepSoon() {
	select {
	case c.recorded <- struct{}{}:
	default:
	}
}

// sweep once. A type that cannot be read, and a part of discovery that failed, hold all
// entries, for they may hide dependents.
func (c *Controller) sweep(ctx context.Context) {
	begun := time.Now()
	holders := map[string]error{}
	if _, err := c.discover(ctx); err != nil {
		holders["discovery"] = err
	}
	var followed map[string]*following
	if c.enter(ctx, func(time.Time) {
		followed = c.followed()
		for groupVersion, err := range c.partial {
			holders["*."+groupOf(groupVersion)] = err
		}
	}) != nil {
		return
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, sweepAtOnce)
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
	without := config.Patterns(c.door.settings().OrphanWithout)
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
	for _, s := range c.types {
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
			"types", some(slices.Collect(maps.Keys(holders))), "first", name, "error", short(fmt.Sprint(holders[name])),
			"help", "mend them, or list those that hold no dependents in orphanWithout")
		return
	}
	_ = c.enter(ctx, func(now time.Time) {
		if forgotten := c.collector.Swept(now, begun); len(forgotten) > 0 {
			c.orphans.done(forgotten)
			c.log.Info("orphaned owners are forgotten", "reason", "every type has told what was before", "owners", len(forgotten))
		}
	})
}
