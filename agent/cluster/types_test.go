package cluster

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

var widgets = gc.Type{APIVersion: "example.com/v1", Kind: "Widget", Resource: "widgets", Namespaced: true}

func widget(name string) gc.Object {
	return gc.Object{APIVersion: "example.com/v1", Kind: "Widget", Namespace: "a", Name: name}
}

func (b *fixture) served(t gc.Type) (s TypeStatus, ok bool) {
	b.t.Helper()
	list, err := b.c.Types(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(s TypeStatus) bool { return s.APIVersion == t.APIVersion && s.Kind == t.Kind })
	if i < 0 {
		return s, false
	}
	return list[i], true
}

// A type that comes late is followed within seconds.
func TestLateType(t *testing.T) {
	inBubble(t, nil, nil, func(b *fixture) {
		owner := b.api.put(widget("w"))
		pods := b.pods(owner, 3)
		b.after(time.Hour)
		b.want("pods left while nobody knows their owner's type", b.left(pods), 3)
		b.serve(append(b.api.types, widgets)...)
		b.after(3 * time.Second)
		s, ok := b.served(widgets)
		b.want("served", []any{ok, s.State}, "[true synced]")
		b.api.remove(owner, gc.Background)
		b.after(time.Second)
		b.want("pods left", b.left(pods), 0)
	})
}

// Missing once is nothing; missing for long is gone if its own list and watch are refused,
// too; seen to be deleted is gone at once. Nothing of that deletes anything.
func TestTypeGoes(t *testing.T) {
	for name, tc := range map[string]struct {
		go_  func(*fixture)
		wait time.Duration
		gone bool
	}{
		"missing for a moment": {func(b *fixture) { b.serve(b.api.types[:3]...) }, 3 * time.Second, false},
		"missing":              {func(b *fixture) { b.serve(b.api.types[:3]...) }, time.Minute, true},
		"missing for another API server": {func(b *fixture) {
			unlock := b.api.lock()
			b.api.older = true
			unlock()
			b.serve(b.api.types[:3]...)
		}, time.Hour, false},
		"flapping": {func(b *fixture) {
			all := b.api.types
			for i := range 40 {
				b.serve(all[:3+i%2]...)
				b.after(time.Second)
			}
		}, time.Millisecond, false},
		"its part of discovery fails": {func(b *fixture) {
			unlock := b.api.lock()
			b.api.partial = map[string]error{"example.com/v1": errors.New("stale")}
			unlock()
			b.serve(b.api.types[:3]...)
		}, time.Hour, false},
		"discovery is empty": {func(b *fixture) { b.serve() }, time.Hour, false},
		"discovery fails": {func(b *fixture) {
			defer b.api.lock()()
			b.api.discover = errors.New("no route to host")
		}, time.Hour, false},
		"its definition is deleted": {func(b *fixture) {
			crd := gc.Object{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: "widgets.example.com"}
			crd = b.api.put(crd)
			b.after(10 * time.Second)
			b.serve(b.api.types[:3]...)
			b.after(200 * time.Millisecond)
			b.api.remove(crd, gc.Background)
		}, 2 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(f *fake) { f.types = append(f.types, widgets) }, func(b *fixture) {
				owner := b.api.put(widget("w"))
				pods := b.pods(owner, 3)
				tc.go_(b)
				b.after(tc.wait)
				_, ok := b.served(widgets)
				b.want("gone", !ok, tc.gone)
				b.want("pods left", b.left(pods), 3)
				unlock := b.api.lock()
				b.api.partial, b.api.discover, b.api.older = nil, nil, false
				unlock()
				b.serve(append(newFake().types, widgets)...)
				b.after(20 * time.Second)
				b.api.remove(owner, gc.Background)
				b.after(time.Second)
				b.want("pods left in the end", b.left(pods), 0)
			})
		})
	}
}

// A resource stays followed in one version, whichever is preferred; when that is
// not served any more, another one takes over.
func TestVersions(t *testing.T) {
	older, second := widgets, widgets
	second.APIVersion, second.Unwatched = "example.com/v2", true
	newer := second
	newer.Unwatched, older.Unwatched = false, true
	inBubble(t, nil, func(f *fake) { f.types = append(f.types, widgets, second) }, func(b *fixture) {
		for range 5 {
			b.serve(append(newFake().types, older, newer)...)
			b.after(3 * time.Second)
			one, _ := b.served(widgets)
			two, _ := b.served(second)
			b.want("states", one.State+" "+two.State, "synced unwatched")
		}
		b.serve(append(newFake().types, newer)...)
		b.after(20 * time.Second)
		_, ok := b.served(widgets)
		two, _ := b.served(second)
		b.want("states", []any{ok, two.State}, "[false synced]")
	})
}

// One that has another scope by now comes anew.
func TestScopeChanges(t *testing.T) {
	inBubble(t, nil, func(f *fake) { f.types = append(f.types, widgets) }, func(b *fixture) {
		wide := widgets
		wide.Namespaced = false
		b.serve(append(newFake().types, wide)...)
		b.after(5 * time.Second)
		s, ok := b.served(widgets)
		b.want("served", []any{ok, s.State, s.Namespaced}, "[true synced false]")
	})
}

// Events of both groups are left out, whatever discovery returns.
func TestEventsAreLeftOut(t *testing.T) {
	inBubble(t, nil, func(f *fake) {
		for _, v := range []string{"v1", "events.k8s.io/v1", "example.com/v1"} {
			f.types = append(f.types, gc.Type{APIVersion: v, Kind: "Event", Resource: "events", Namespaced: true})
		}
	}, func(b *fixture) {
		for v, want := range map[string]bool{"v1": false, "events.k8s.io/v1": false, "example.com/v1": true} {
			_, ok := b.served(gc.Type{APIVersion: v, Kind: "Event"})
			b.want(v, ok, want)
		}
	})
}

// Without any discovery nothing is ready; the first one makes it so.
func TestNoDiscovery(t *testing.T) {
	inBubble(t, nil, func(f *fake) { f.discover = errors.New("no route to host") }, func(b *fixture) {
		b.after(time.Minute)
		b.want("logged", b.logged("cannot discover types"), 1)
		b.want("problem", b.c.server.status.Load().problem, "types are not known yet: no route to host")
		unlock := b.api.lock()
		b.api.discover = nil
		unlock()
		b.after(11 * time.Second)
		b.want("problem", b.c.server.status.Load().problem, "")
	})
}
