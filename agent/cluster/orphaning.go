package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
)

const (
	// maxCatchingUp bounds the types that catch up at the same time.
	maxCatchingUp = 16
	// catchUpTimeout bounds how long a type may take to catch up: bookmarks come once a
	// minute, and an aggregated type is listed.
	catchUpTimeout = 5 * time.Minute
)

// journalGraph gives the keeper of the journal access to the graph of owners: it implements
// journal.Graph.
type journalGraph struct{ c *Controller }

func (g journalGraph) Do(ctx context.Context, do func(now time.Time, c *cascade.Collector)) error {
	return g.c.loop.do(ctx, func(now time.Time) { do(now, g.c.owners.Collector) })
}

func (g journalGraph) CaughtUp(ctx context.Context) (map[string]error, error) {
	holders := map[string]error{}
	if err := g.c.discover(ctx); err != nil {
		holders["discovery"] = err
	}
	followed := map[string]*following{}
	if err := g.c.loop.do(ctx, func(time.Time) {
		for _, s := range g.c.types.all {
			if s.following != nil {
				followed[s.name()] = s.following
			}
		}
		for groupVersion, err := range g.c.types.partial {
			holders["*."+gc.GroupOf(groupVersion)] = err
		}
	}); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, maxCatchingUp)
	for name, f := range followed {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeoutCause(ctx, catchUpTimeout, errors.New("it did not catch up in time"))
			defer cancel()
			if err := f.CatchUp(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				holders[name] = err
			}
		})
	}
	all.Wait()
	return holders, nil
}
