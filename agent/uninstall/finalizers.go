package uninstall

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
)

const (
	listing = 8 // types at a time
	again   = 2 * time.Second
)

// collectors' finalizers: nobody else takes them away.
var collected = []string{"orphan", "foregroundDeletion"}

// scanned is what there is in the cluster.
type scanned struct {
	types, objects int
	waiting        []string // for a collector, for people
	unread         []string // types, and why
	unreadNames    []string // as --leave-type takes them
}

// scan reads all types, and those in which something waits again until nothing does,
// or the time is up.
func scan(ctx context.Context, a *api, o CheckOptions) (*scanned, error) {
	types, unread, err := discover(ctx, o)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(o.Wait)
	s := &scanned{types: len(types)}
	waiting, objects, failed := readAll(ctx, a, types)
	s.objects = objects
	for len(waiting) > 0 && time.Now().Before(deadline) && sleep(ctx, again) {
		some := types[:0:0]
		for _, t := range types {
			if _, ok := waiting[t]; ok {
				some = append(some, t)
			}
		}
		var more map[gc.Type]error
		waiting, _, more = readAll(ctx, a, some)
		maps.Copy(failed, more)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, names := range waiting {
		s.waiting = append(s.waiting, names...)
	}
	for t, err := range failed {
		unread[typeName(t)] = err
	}
	for name, err := range unread {
		s.unread = append(s.unread, clean(name)+": "+why(err))
		s.unreadNames = append(s.unreadNames, clean(name))
	}
	s.types -= len(failed)
	return s, nil
}

func why(err error) string {
	if is(err, http.StatusForbidden) {
		return "not allowed to list"
	}
	return clean(err.Error())
}

// discover says which types to read, and which versions of groups nobody knows.
func discover(ctx context.Context, o CheckOptions) (types []gc.Type, unread map[string]error, err error) {
	client, err := kube.New(o.Config, kube.Options{})
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	d, err := client.Discover(ctx)
	if err != nil {
		return nil, nil, err
	}
	unread = make(map[string]error)
	named := make(map[string]bool)
	for _, t := range d.Types {
		name := typeName(t)
		if t.Unwatched || slices.Contains(o.LeaveTypes, name) || len(o.Types) > 0 && !slices.Contains(o.Types, name) {
			continue
		}
		named[name] = true
		types = append(types, t)
	}
	for version, err := range d.Partial {
		if len(o.Types) == 0 && !slices.Contains(o.LeaveTypes, version) {
			unread[version] = err
		}
	}
	for _, name := range o.Types {
		if !named[name] && !slices.Contains(o.LeaveTypes, name) {
			unread[name] = errors.New("no such type is served")
		}
	}
	return types, unread, nil
}

// typeName is a type as kubectl would write it.
func typeName(t gc.Type) string {
	if group, _, ok := strings.Cut(t.APIVersion, "/"); ok {
		return t.Resource + "." + group
	}
	return t.Resource
}

// readAll lists types, and says of each in which something waits what that is.
func readAll(ctx context.Context, a *api, types []gc.Type) (waiting map[gc.Type][]string, objects int, failed map[gc.Type]error) {
	waiting, failed = make(map[gc.Type][]string), make(map[gc.Type]error)
	var mu sync.Mutex
	var wg sync.WaitGroup
	room := make(chan struct{}, listing)
	for _, t := range types {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			found, n, err := readType(ctx, a, t)
			mu.Lock()
			defer mu.Unlock()
			objects += n
			if len(found) > 0 {
				waiting[t] = found
			}
			if err != nil {
				failed[t] = err
			}
		})
	}
	wg.Wait()
	return waiting, objects, failed
}

func readType(ctx context.Context, a *api, t gc.Type) (waiting []string, objects int, err error) {
	path := "/apis/" + t.APIVersion + "/" + t.Resource
	if !strings.Contains(t.APIVersion, "/") {
		path = "/api/" + t.APIVersion + "/" + t.Resource
	}
	reset := func() { waiting, objects = nil, 0 }
	err = a.list(ctx, path, nil, reset, func(m metadata) {
		objects++
		if m.DeletionTimestamp == "" {
			return
		}
		for _, f := range m.Finalizers {
			if slices.Contains(collected, f) {
				waiting = append(waiting, describe(t, m, f))
				return
			}
		}
	})
	return waiting, objects, err
}

func describe(t gc.Type, m metadata, finalizer string) string {
	at := m.Name
	if m.Namespace != "" {
		at = m.Namespace + "/" + m.Name
	}
	return fmt.Sprintf("%s %s (%s, being deleted since %s)", clean(typeName(t)), clean(at), finalizer, clean(m.DeletionTimestamp))
}
