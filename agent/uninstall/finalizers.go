package uninstall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/agent/preview"
	"github.com/ebb-agent/ebb/policy/gc"
	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/runtime/wait"
)

// lookEach is the pause between two reads of the objects that ebb-controller is about to delete.
const lookEach = 2 * time.Second

// scan is what was found in the cluster.
type scan struct {
	progress       io.Writer
	mu             sync.Mutex
	types, objects int
	waiting        map[gc.Type][]string // objects that wait for a collector, as text
	unread         map[string]error     // why types could not be read; named as in --leave-type
}

// scanAll reads all types. Then it reads those with waiting objects again, until no object waits or
// the time is up.
func scanAll(ctx context.Context, c *kube.Client, o CheckOptions) (*scan, error) {
	types, unread, err := discover(ctx, c, o)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(o.Wait)
	s := &scan{unread: unread, progress: o.Progress}
	s.read(ctx, c, types)
	s.types = len(types)
	for _, t := range types {
		if unread[preview.TypeName(t.APIVersion, t.Resource)] != nil {
			s.types--
		}
	}
	for objects := s.objects; len(s.waiting) > 0 && time.Now().Before(deadline) && wait.Sleep(ctx, lookEach); s.objects = objects {
		s.read(ctx, c, slices.Collect(maps.Keys(s.waiting)))
	}
	return s, ctx.Err()
}

// discover returns the types to read. unread has the named types that are not served, and the group
// versions whose types are unknown.
func discover(ctx context.Context, c *kube.Client, o CheckOptions) (types []gc.Type, unread map[string]error, err error) {
	d, err := c.Discover(ctx)
	if err != nil {
		return nil, nil, err
	}
	unread = make(map[string]error)
	for _, name := range o.Types {
		unread[name] = errors.New("no such type is served")
	}
	for _, t := range d.Types {
		name := preview.TypeName(t.APIVersion, t.Resource)
		if !t.Unwatched && !slices.Contains(o.LeaveTypes, name) && (len(o.Types) == 0 || slices.Contains(o.Types, name)) {
			delete(unread, name)
			types = append(types, t)
		}
	}
	if len(o.Types) == 0 {
		maps.Copy(unread, d.Partial)
	}
	for _, name := range o.LeaveTypes {
		delete(unread, name)
	}
	return types, unread, nil
}

// read finds the objects of these types that wait for a collector.
func (s *scan) read(ctx context.Context, c *kube.Client, types []gc.Type) {
	s.waiting = make(map[gc.Type][]string)
	were := newCounter(s.progress, len(types), "types were read")
	preview.Each(len(types), func(i int) {
		t, name := types[i], preview.TypeName(types[i].APIVersion, types[i].Resource)
		var waiting []string
		objects := 0
		err := c.List(ctx, t, kube.Selection{}, func() { waiting, objects = nil, 0 }, func(o kube.ListedObject) {
			objects++
			if f := slices.IndexFunc(o.Finalizers, isCollectors); o.Terminating && f >= 0 {
				at := strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
				waiting = append(waiting, fmt.Sprintf("%s %s (%s, being deleted since %s)", name, at, o.Finalizers[f], o.Deleted.UTC().Format(time.RFC3339)))
			}
		})
		were.add()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.objects += objects
		if len(waiting) > 0 {
			s.waiting[t] = waiting
		}
		if err != nil {
			s.unread[name] = cmp.Or(errors.Unwrap(err), err) // the output has the name anyway
		}
	})
}

// isCollectors reports whether only a garbage collector removes this finalizer.
func isCollectors(finalizer string) bool {
	return finalizer == gc.OrphanFinalizer || finalizer == gc.ForegroundFinalizer
}
