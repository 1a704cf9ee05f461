package preview

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

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
		return "you are not allowed to list"
	}
	return err.Error()
}

func (c *cluster) list(ctx context.Context, t gc.Type) (objects []gc.Object, err error) {
	err = c.client.List(ctx, t, metadata.Selection{}, func() { objects = nil }, func(o metadata.ListedObject) {
		objects = append(objects, o.Object)
	})
	return objects, err
}
