// Package monitor has the lock under which the agent's goroutines use its state.
package monitor

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// Monitor is a lock that is given up around everything that takes long: a call of the
// runtime, of the API server or of a disk, or a wait. So whoever waits for it waits for
// arithmetic alone. Those who wait get it in turn.
type Monitor struct {
	turn *semaphore.Weighted
	left chan struct{}
}

// New returns a Monitor that nobody has entered.
func New() *Monitor {
	return &Monitor{turn: semaphore.NewWeighted(1), left: make(chan struct{}, 1)}
}

// Do calls f under the lock.
func (m *Monitor) Do(f func()) {
	m.enter()
	defer m.leave()
	f()
}

// DoWithin does so unless ctx ends first, which is the error then.
func (m *Monitor) DoWithin(ctx context.Context, f func()) error {
	if err := m.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer m.leave()
	f()
	return nil
}

// DoQuietly is Do without a word on Left: for whoever listens there.
func (m *Monitor) DoQuietly(f func()) {
	m.enter()
	defer m.turn.Release(1)
	f()
}

// Outside is for who holds the lock: it calls f without it. What was read before may have
// changed when it returns.
func (m *Monitor) Outside(f func()) {
	m.leave()
	defer m.enter()
	f()
}

// Left has a word when the lock was given up, so that deadlines that were changed under it
// can be read anew. There is one for all that came since the last one was taken.
func (m *Monitor) Left() <-chan struct{} { return m.left }

func (m *Monitor) enter() { _ = m.turn.Acquire(context.Background(), 1) } // which never ends

func (m *Monitor) leave() {
	m.turn.Release(1)
	select {
	case m.left <- struct{}{}:
	default:
	}
}
