package preview

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// attempts is how often the list of a type may break off before the type counts as unreadable.
const attempts = 3

// read lists all types at once; the client bounds how many at a time.
func (c *cluster) read(ctx context.Context, types []gc.Type) error {
	c.unread = make(map[[2]string]string)
	c.types = slices.Clone(types)
	var wg sync.WaitGroup
	for i, t := range types {
		if t.Unwatched {
			continue
		}
		wg.Go(func() {
			objects, err := c.list(ctx, t)
			c.mu.Lock()
			defer c.mu.Unlock()
			if err != nil {
				// None of its objects is known; each can be read live.
				c.types[i].Unwatched = true
				c.unread[[2]string{t.APIVersion, t.Kind}] = reason(err)
				c.notSeen = append(c.notSeen, NotSeen{TypeName(t.APIVersion, t.Resource), reason(err)})
				return
			}
			c.listed++
			c.objects = append(c.objects, objects...)
		})
	}
	wg.Wait()
	return ctx.Err()
}

// reason returns why a type cannot be read. A user who may not read one type usually may not read
// many; all of them get the same sentence.
func reason(err error) string {
	if errors.Is(err, metadata.ErrForbidden) {
		return "you are not allowed to list and watch"
	}
	return err.Error()
}

var errListed = errors.New("the list is complete")

// list follows a type until its list is complete.
func (c *cluster) list(ctx context.Context, t gc.Type) ([]gc.Object, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var objects []gc.Object
	failures := 0
	follower := c.client.Follow(t, nil, func(_ context.Context, batch []metadata.Event) error {
		for _, e := range batch {
			switch e.Kind {
			case metadata.Listing:
				objects = nil
			case metadata.Observed:
				objects = append(objects, e.Object)
			case metadata.Synced:
				cancel(errListed)
				return errListed
			case metadata.Unreadable:
				if failures++; failures >= attempts || errors.Is(e.Err, metadata.ErrForbidden) || errors.Is(e.Err, metadata.ErrNotServed) {
					cancel(e.Err)
					return e.Err
				}
			}
		}
		return nil
	})
	err := follower.Run(ctx)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, errListed) {
		return objects, nil
	}
	return nil, err
}
