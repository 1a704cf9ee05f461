package containerd_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// watcher runs Watch for the length of a test.
type watcher struct{ events chan inventory.Event }

func (s *suite) watch(t *testing.T) *watcher {
	t.Helper()
	w := &watcher{events: make(chan inventory.Event, 1024)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Runtime.Watch(ctx, w.events) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("watch ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("watch did not end with its context")
		}
	})
	w.await(t, "resync", func(e inventory.Event) bool { return e.Kind == inventory.EventResync })
	return w
}

// await returns the first event that matches; those before it are passed over.
func (w *watcher) await(t *testing.T, what string, match func(inventory.Event) bool) inventory.Event {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case e := <-w.events:
			if match(e) {
				return e
			}
		case <-deadline:
			t.Fatalf("no event: %s", what)
		}
	}
}

func (s *suite) events(t *testing.T) {
	w := s.watch(t)
	for _, space := range []string{criNamespace, otherSpace} {
		id := s.Node.Import(t, space, Image{Name: name("event"), Layers: []Layer{{"event", mib}}, Runnable: true})
		w.await(t, "image", func(e inventory.Event) bool {
			return e.Kind == inventory.EventImage && e.Namespace == space && e.Image == name("event")
		})
		s.Node.Run(t, space, "runner", name("event"))
		w.await(t, "container created", func(e inventory.Event) bool {
			return e.Kind == inventory.EventContainer && e.Namespace == space && e.Container == "runner" && e.Image == name("event")
		})
		w.await(t, "task started", func(e inventory.Event) bool {
			return e.Kind == inventory.EventTask && e.Container == "runner" && !e.Ended
		})
		s.Node.Stop(t, space, "runner")
		w.await(t, "task ended", func(e inventory.Event) bool {
			return e.Kind == inventory.EventTask && e.Container == "runner" && e.Ended
		})
		s.Node.Delete(t, space, "runner")
		w.await(t, "container deleted", func(e inventory.Event) bool {
			return e.Kind == inventory.EventContainer && e.Container == "runner"
		})
		if space == criNamespace {
			s.ownViewsAreSilent(t, w, id)
			s.discard(t, id)
			w.await(t, "image deleted", func(e inventory.Event) bool {
				return e.Kind == inventory.EventImage && e.Image == name("event")
			})
		}
	}
}

// ownViewsAreSilent resolves a layer, which makes and removes a view, and then
// tags an image: the tag must be the next thing heard of.
func (s *suite) ownViewsAreSilent(t *testing.T, w *watcher, id string) {
	t.Helper()
	// Let everything that is under way arrive: this tag comes after it.
	s.Node.Tag(t, criNamespace, name("event"), name("event-mark"))
	w.await(t, "mark", func(e inventory.Event) bool { return e.Image == name("event-mark") })
	if _, err := s.Runtime.ResolveLayer(t.Context(), s.layer(t, id)); err != nil {
		t.Fatalf("resolve: %v", err)
	}
	s.Node.Tag(t, criNamespace, name("event"), name("event-end"))
	// The CRI answers a tag by labelling it, or by naming the digest as well.
	w.await(t, "end", func(e inventory.Event) bool {
		if e.Kind != inventory.EventImage {
			t.Errorf("an event of our own view: %+v", e)
		}
		return e.Image == name("event-end")
	})
}

func (s *suite) interrupt(t *testing.T) {
	w := s.watch(t)
	s.Node.Interrupt(t)
	down := w.await(t, "down", func(e inventory.Event) bool { return e.Kind == inventory.EventDown })
	if down.Err == nil {
		t.Error("the break has no reason")
	}
	w.await(t, "resync", func(e inventory.Event) bool { return e.Kind == inventory.EventResync })
	// All works as before.
	id := s.Node.Import(t, criNamespace, Image{Name: name("after"), Layers: []Layer{{"after", mib}}})
	w.await(t, "image", func(e inventory.Event) bool { return e.Image == name("after") })
	s.find(t, id)
	s.remove(t, id)
}

// podEvents: the end of a pod's container is reported, and of its sandbox.
func (s *suite) podEvents(t *testing.T) {
	id := s.Node.Import(t, criNamespace, Image{Name: name("event-pod"), Runnable: true})
	defer s.discard(t, id)
	w := s.watch(t)
	sandbox, container := s.Node.RunPod(t, Pod{PodID: podID("events"), Image: name("event-pod")})
	defer s.removePod(t, sandbox, container)
	s.Node.EndContainer(t, container)
	w.await(t, "container ended", func(e inventory.Event) bool {
		return e.Kind == inventory.EventTask && e.Namespace == criNamespace && e.Container == container && e.Ended
	})
	s.Node.EndSandbox(t, sandbox)
	w.await(t, "sandbox ended", func(e inventory.Event) bool {
		return e.Kind == inventory.EventTask && e.Namespace == criNamespace && e.Container == sandbox && e.Ended
	})
}
