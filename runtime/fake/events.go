package fake

import (
	"context"
	"sync"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// stream keeps the events that Watch has not delivered yet.
type stream struct {
	mu      sync.Mutex
	pending []inventory.Event
	down    bool
	news    chan struct{} // holds a token while pending is not empty
}

// add queues an event. While the stream is down the event is lost, as in reality.
func (s *stream) add(e inventory.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.down {
		s.push(e)
	}
}

func (s *stream) push(e inventory.Event) {
	s.pending = append(s.pending, e)
	select {
	case s.news <- struct{}{}:
	default:
	}
}

func (s *stream) take() []inventory.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.pending
	s.pending = nil
	return all
}

// CutEvents breaks the event stream: Watch reports it, and what happens from
// then on is lost until ResumeEvents.
func (r *Runtime) CutEvents(err error) {
	r.events.mu.Lock()
	defer r.events.mu.Unlock()
	r.events.down = true
	r.events.push(inventory.Event{Kind: inventory.EventDown, Err: err})
}

// ResumeEvents reconnects the event stream.
func (r *Runtime) ResumeEvents() {
	r.events.mu.Lock()
	defer r.events.mu.Unlock()
	r.events.down = false
	r.events.push(inventory.Event{Kind: inventory.EventResync, At: r.now()})
}

// Watch sends a Resync and then every event. One Watch may run at a time.
func (r *Runtime) Watch(ctx context.Context, out chan<- inventory.Event) error {
	r.events.take() // older events: the Resync covers them
	r.ResumeEvents()
	for {
		select {
		case <-r.events.news:
		case <-ctx.Done():
			return ctx.Err()
		}
		for _, e := range r.events.take() {
			select {
			case out <- e:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}
