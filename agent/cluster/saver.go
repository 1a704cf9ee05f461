package cluster

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/election"
	"github.com/ebb-agent/ebb/runtime/wait"
)

// StateStore keeps the state for the next leader: annotations of the Lease.
type StateStore interface {
	Read(ctx context.Context) (election.State, error)
	Write(ctx context.Context, k election.State) error
}

const (
	saveRetryMin, saveRetryMax = 250 * time.Millisecond, 10 * time.Second
	saveTimeout                = 5 * time.Second
	// finalSaveTimeout bounds the last save, for which the release of the Lease waits.
	finalSaveTimeout = 2 * time.Second
	// saveDelay is how long after deletions their number is saved, unless it is due
	// sooner: this gives back what was reserved ahead.
	saveDelay = 5 * time.Second

	haltPaused, haltTripped, haltUnconfirmed = "paused", "breaker-open", "restored"
)

// saver stores a pause by hand, the circuit breaker and its counts, so that they outlive
// this process: a restart must not resume what the breaker has stopped, nor reset its
// counts. Nothing is sent until the state of the last leader is read and a new one is
// saved.
type saver struct {
	store StateStore    // nil: there is none
	wake  chan struct{} // something has changed

	mu    sync.Mutex // held over a request
	saved string     // the halts
}

// haltState is what holds the gate, as it is saved. The caller holds the lock.
func (g *gate) haltState() string {
	var words []string
	if g.paused {
		words = append(words, haltPaused)
	}
	if g.tripped {
		words = append(words, haltTripped)
	}
	if g.unconfirmed {
		words = append(words, haltUnconfirmed)
	}
	return strings.Join(words, " ")
}

// isLoading reports whether the state of the last leader is still unknown.
func (g *gate) isLoading() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.loading
}

// restoreState takes over the state of the last leader. An unknown word counts as a
// pause, and counts that cannot be parsed open the circuit breaker. From then on counts
// are saved.
func (g *gate) restoreState(k election.State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for w := range strings.FieldsSeq(k.Halted) {
		switch w {
		case haltTripped:
			g.tripped = true
		case haltUnconfirmed:
			g.unconfirmed = true
		default:
			g.paused = true
		}
	}
	if err := g.breaker.Restore(time.Now(), k.Deletions); err != nil {
		g.tripped = true
		g.log.Error("deletions stop: how many there were is not known; look at ebb control decisions, then run ebb control resume", "reason", "kept on the lease", "error", err)
	}
	g.breaker.Persist(true)
	g.updateMetrics()
	if g.awaitsConfirmation() {
		g.log.Warn("nodes and volumes wait: look at what came back, then run ebb control confirm-restore", "reason", "kept on the lease")
	}
	if g.paused || g.tripped {
		g.log.Warn("it is as it was left: look at why, then run ebb control resume", "reason", "kept on the lease", "was", truncate(k.Halted))
	}
}

// loaded lets actions through, unless something else holds them.
func (g *gate) loaded() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loading = false
}

// startWithoutState lets the gate work without saving anything. Nobody knows then whether
// etcd was restored before this process began, so a person has to confirm that.
func (g *gate) startWithoutState() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loading, g.unconfirmed = false, true
	g.breaker.Persist(false)
	g.updateMetrics()
}

// saveState runs until ctx ends. It restores the state of the last leader, then saves each
// change, and retries until that succeeds.
func (c *Controller) saveState(ctx context.Context) {
	err := c.restoreState(ctx)
	if errors.Is(err, election.ErrNoLease) {
		c.log.Warn("a pause by hand, the circuit breaker and its counts will not outlive a restart", "reason", err.Error())
		c.gate.startWithoutState()
	}
	c.wakeLoop(ctx)
	if err != nil {
		return
	}
	timer := time.NewTimer(saveDelay)
	defer timer.Stop()
	var late <-chan time.Time // when counts that are not urgent are saved
	for backoff := (wait.Backoff{Min: saveRetryMin, Max: saveRetryMax}); ctx.Err() == nil; {
		urgent, dirty := c.gate.unsaved(&c.saver)
		if late == nil && dirty {
			timer.Reset(saveDelay)
			late = timer.C
		}
		if !urgent {
			select {
			case <-ctx.Done():
				return
			case <-c.saver.wake:
				continue
			case <-late:
			}
		}
		late = nil
		if err := c.saveNow(ctx); err != nil && ctx.Err() == nil {
			if backoff.First() {
				c.log.Error("a restart would not know how it stands, and after some more deletions none are sent", "reason", "the lease cannot be written", "error", err)
			}
			wait.Sleep(ctx, backoff.Next())
			continue
		}
		backoff.Reset()
		c.wakeLoop(ctx)
	}
}

// wakeLoop has the loop check the gate, as it does after each input.
func (c *Controller) wakeLoop(ctx context.Context) { _ = c.inLoop(ctx, func(time.Time) {}) }

// restoreState reads the state of the last leader and saves a new one. It retries until it
// succeeds, ctx ends, or there is no Lease to keep state in.
func (c *Controller) restoreState(ctx context.Context) error {
	read := false
	for backoff := (wait.Backoff{Min: saveRetryMin, Max: saveRetryMax}); ; {
		var err error
		if !read {
			var k election.State
			if k, err = c.saver.read(ctx); err == nil {
				read = true
				c.gate.restoreState(k)
			}
		}
		if read {
			err = c.writeState(ctx, false)
		}
		if err == nil {
			c.gate.loaded()
			return nil
		}
		if errors.Is(err, election.ErrNoLease) {
			return err
		}
		if backoff.First() && ctx.Err() == nil {
			c.log.Error("nothing is sent before it is known whether it was paused, or its circuit breaker open", "reason", "the lease cannot be read or written", "error", err)
		}
		if !wait.Sleep(ctx, backoff.Next()) {
			return ctx.Err()
		}
	}
}

func (s *saver) read(ctx context.Context) (election.State, error) {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, err := s.store.Read(ctx)
	s.saved = kept.Halted
	return kept, err
}

// saveNow saves the state of the gate unless it is saved already. Only the leader does.
func (c *Controller) saveNow(ctx context.Context) error {
	if c.saver.store == nil || !c.leads.Load() || c.gate.isLoading() {
		return nil
	}
	if urgent, dirty := c.gate.unsaved(&c.saver); !urgent && !dirty {
		return nil
	}
	return c.writeState(ctx, false)
}

// unsaved says whether the Lease lacks the state of the gate, and whether it is to be
// saved at once.
func (g *gate) unsaved(k *saver) (urgent, dirty bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.loading && (g.haltState() != k.saved || g.breaker.SaveDue(time.Now())), g.breaker.Dirty()
}

// saveFinal saves the exact counts at an orderly end, and that no more deletions follow.
func (c *Controller) saveFinal(ctx context.Context) {
	if c.saver.store == nil || c.gate.isLoading() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, finalSaveTimeout)
	defer cancel()
	if err := c.writeState(ctx, true); err != nil && !errors.Is(err, election.ErrNoLease) {
		c.log.Warn("who leads next takes more for deleted than was", "reason", "the lease cannot be written", "error", err)
	}
}

// writeState saves the state of the gate.
func (c *Controller) writeState(ctx context.Context, last bool) error {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	k, d := &c.saver, c.gate
	k.mu.Lock()
	defer k.mu.Unlock()
	d.mu.Lock()
	if d.leaseHeld != nil && !d.leaseHeld() {
		d.mu.Unlock()
		return election.ErrLost
	}
	kept := election.State{Halted: d.haltState(), Deletions: d.breaker.Snapshot(time.Now(), last)}
	d.mu.Unlock()
	if err := k.store.Write(ctx, kept); err != nil {
		return err
	}
	k.saved = kept.Halted
	d.mu.Lock()
	defer d.mu.Unlock()
	d.breaker.Saved()
	return nil
}

// notify wakes the saver after a change.
func (s *saver) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
