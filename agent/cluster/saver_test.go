package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/election"
	"github.com/ebb-agent/ebb/policy/gc"
)

// memory is a Lease that can be away, for errors that a real one does not have when
// they are wanted.
type memory struct {
	mu   sync.Mutex
	kept election.State
	err  error
	n    int // times it was written
}

func (m *memory) set(err error) { m.mu.Lock(); defer m.mu.Unlock(); m.err = err }

func (m *memory) Read(context.Context) (election.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept, m.err
}

func (m *memory) Write(_ context.Context, k election.State) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.kept = k
		m.n++
	}
	return m.err
}

func (m *memory) want(t *testing.T, what, want string) {
	t.Helper()
	if k, _ := m.Read(t.Context()); k.Halted != want {
		t.Errorf("%s: %q is kept, want %q", what, k.Halted, want)
	}
}

func withMemory(t *testing.T, m *memory, test func(b *fixture)) {
	t.Helper()
	inBubbleWith(t, m, func(c *config.Config) {
		c.CircuitBreaker = config.CircuitBreaker{Deletions: 3, Window: config.Duration(time.Hour)}
	}, nil, test)
}

// Until the state of the previous leader is known, nothing is sent, not even on a command.
func TestNothingIsSentBeforeItIsKnown(t *testing.T) {
	m := &memory{err: errors.New("the API server is away")}
	withMemory(t, m, func(b *fixture) {
		owner := b.api.put(set("o"))
		pods := b.pods(owner, 2)
		b.api.remove(owner, gc.Background)
		b.after(20 * time.Second)
		b.want("left", b.left(pods), 2)
		b.want("resumed", b.c.Resume(b.t.Context()), "it is not known yet whether the previous leader was paused or had its circuit breaker open")
		b.want("logged", b.logged("deletions wait until the Lease shows"), 1)
		m.set(nil)
		b.after(11 * time.Second)
		b.want("left", b.left(pods), 0)
	})
}

// What is not allowed to be kept holds nothing up.
func TestNoMemory(t *testing.T) {
	m := &memory{err: fmt.Errorf("%w", election.ErrNoLease)}
	withMemory(t, m, func(b *fixture) {
		owner := b.api.put(set("o"))
		pods := b.pods(owner, 2)
		b.api.remove(owner, gc.Background)
		b.after(time.Minute)
		b.want("left", b.left(pods), 0)
		b.want("logged", b.logged("will be lost on restart"), 1)
	})
}

// A refusal that passes, such as one of an API server that has not read its roles yet, neither forgets what
// the previous leader has left, nor overwrites it.
func TestNoMemoryAtFirst(t *testing.T) {
	for _, wait := range []time.Duration{time.Second, time.Minute, time.Hour} {
		t.Run(wait.String(), func(t *testing.T) {
			m := &memory{err: fmt.Errorf("%w", election.ErrNoLease), kept: election.State{Halted: "paused breaker-open"}}
			if wait == time.Minute { // it is away, and refuses only then
				m.err = errors.New("the API server is away")
			}
			withMemory(t, m, func(b *fixture) {
				owner := b.api.put(set("o"))
				b.pods(owner, 2)
				b.api.remove(owner, gc.Background)
				b.after(wait)
				if wait == time.Minute {
					m.set(fmt.Errorf("%w", election.ErrNoLease))
					b.after(11 * time.Second)
				}
				m.set(nil)
				b.after(time.Minute)
				if wait < time.Hour {
					b.want("sent", len(b.api.sent), 0)
				}
				if err := b.c.gate.Save(b.t.Context()); wait == time.Hour && !errors.Is(err, election.ErrNoLease) {
					t.Errorf("saved what replaces a state that was not read: %v", err)
				}
			})
			m.want(t, "at the end", "paused breaker-open")
		})
	}
}

// The Lease shows what the leader does by its configuration, soon after that changes.
func TestModeIsShown(t *testing.T) {
	m := &memory{}
	withMemory(t, m, func(b *fixture) {
		for _, c := range []struct {
			mode   config.Mode
			paused bool
			want   string
		}{{config.Enforce, false, "enforce"}, {config.Observe, false, "observe"}, {config.Observe, true, "paused"}, {config.Enforce, false, "enforce"}} {
			next := b.c.gate.Settings()
			next.Mode, next.Paused = c.mode, c.paused
			b.c.gate.Configure(next)
			b.after(time.Second)
			if k, err := m.Read(b.t.Context()); err != nil || k.Mode != c.want {
				b.t.Errorf("mode %s, paused %t: the Lease shows %q, want %q; %v", c.mode, c.paused, k.Mode, c.want, err)
			}
		}
	})
}

// A pause and an open circuit breaker are written down, later if need be, and taken away again.
func TestHaltsAreKept(t *testing.T) {
	m := &memory{kept: election.State{Halted: "paused by-a-later-version"}}
	withMemory(t, m, func(b *fixture) {
		b.want("state", b.c.gate.Status(), "paused by hand")
		b.want("still", b.c.Resume(b.t.Context()), "")
		b.want("error", b.c.gate.Save(b.t.Context()), nil)
		m.want(b.t, "resumed", "")
		m.set(errors.New("away"))
		owner := b.api.put(set("o"))
		pods := b.pods(owner, 9)
		b.api.remove(owner, gc.Background)
		b.after(time.Minute)
		b.want("left", b.left(pods), 6)
		b.want("logged", b.logged("cannot write the Lease"), 1)
		m.set(nil)
		b.after(11 * time.Second)
		m.want(b.t, "open", "breaker-open")
		b.c.Pause(b.t.Context())
		b.want("error", b.c.gate.Save(b.t.Context()), nil)
		m.want(b.t, "paused, too", "paused breaker-open")
		synctest.Wait()
	})
}
