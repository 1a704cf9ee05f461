// Package monitor has the lock under which the agent's goroutines use its state.
package monitor

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Monitor is a lock that is released around everything that takes long: a call of the runtime, of
// the API server or of a disk, or a wait. So a goroutine that waits for the lock only waits for
// computation. Waiting goroutines get the lock in order of arrival.
type Monitor struct {
	turn *semaphore.Weighted
	left chan struct{}

	longest atomic.Int64 // time.Duration; see Longest
}

// New returns an unlocked Monitor.
func New() *Monitor {
	return &Monitor{turn: semaphore.NewWeighted(1), left: make(chan struct{}, 1)}
}

// Do calls f under the lock.
func (m *Monitor) Do(f func()) {
	m.enter()
	defer m.leave()
	f()
}

// DoWithin calls f under the lock. If ctx ends before the lock is free, it returns the error of ctx
// and does not call f.
func (m *Monitor) DoWithin(ctx context.Context, f func()) error {
	if err := m.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer m.leave()
	f()
	return nil
}

// DoQuietly is Do without the signal on Left, for the goroutine that receives from Left.
func (m *Monitor) DoQuietly(f func()) {
	began := time.Now()
	m.enter()
	defer m.turn.Release(1)
	f()
	m.longest.Store(max(m.longest.Load(), int64(time.Since(began)))) // no other goroutine stores
}

// Longest returns how long the longest call of DoQuietly has taken, with its wait for the lock. It is safe
// for concurrent use, and does not wait for the lock.
func (m *Monitor) Longest() time.Duration { return time.Duration(m.longest.Load()) }

// Outside calls f without the lock, which the caller holds before and after. State that was read
// before may have changed when it returns.
func (m *Monitor) Outside(f func()) {
	m.leave()
	defer m.enter()
	f()
}

// Left signals that the lock was released, so that deadlines that changed under it can be read
// again. All releases since the last receive are one signal.
func (m *Monitor) Left() <-chan struct{} { return m.left }

func (m *Monitor) enter() { _ = m.turn.Acquire(context.Background(), 1) } // no error: the context never ends

func (m *Monitor) leave() {
	m.turn.Release(1)
	select {
	case m.left <- struct{}{}:
	default:
	}
}
