package gate

import (
	"context"
	"errors"
	"fmt"
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
	// noLeaseAfter is for how long a refusal counts as passing: an API server that has just started
	// refuses until it has read its roles.
	noLeaseAfter = 30 * time.Second
	// saveDelay is how long after deletions their number is saved, unless a save is due sooner.
	// That save gives back what was reserved ahead.
	saveDelay = 5 * time.Second

	haltPaused, haltTripped, haltUnconfirmed = "paused", "breaker-open", "restored"
)

// saver stores a pause by hand, the circuit breaker and its counts, so that they outlive
// this process: a restart must not resume what the breaker has stopped, nor reset its
// counts. Nothing is sent until the state of the last leader is read and a new one is
// saved.
type saver struct {
	store StateStore    // nil: nothing is saved
	wake  chan struct{} // something has changed

	mu     sync.Mutex     // held during a request
	saved  election.State // as last saved, without the counts
	unread bool           // the state of the last leader was refused, so it is never overwritten
}

// haltState returns what holds the gate, in the form in which it is saved. The caller holds the
// lock.
func (g *Gate) haltState() string {
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

// state returns what is saved, without the counts. The caller holds the lock.
func (g *Gate) state() election.State {
	mode := string(g.config.Mode)
	if g.config.Paused {
		mode = "paused"
	}
	return election.State{Halted: g.haltState(), Mode: mode}
}

// isLoading reports whether the state of the last leader is still unknown.
func (g *Gate) isLoading() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.loading
}

// restoreState takes over the state of the last leader. An unknown word counts as a
// pause, and counts that cannot be parsed open the circuit breaker. From then on counts
// are saved.
func (g *Gate) restoreState(k election.State) {
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
		g.log.Error("deletions stop: the saved deletion counts cannot be read; check ebb control decisions, then run ebb control resume", "reason", "saved in the Lease", "error", err)
	}
	g.breaker.Persist(true)
	g.updateMetrics()
	if waiting := g.awaitingConfirmation(); len(waiting) > 0 {
		g.log.Warn("collectors wait after an etcd restore: check what came back, then run ebb control confirm-restore", "collectors", waiting, "reason", "saved in the Lease")
	}
	if g.paused || g.tripped {
		g.log.Warn("still stopped by the previous leader: find out why, then run ebb control resume", "reason", "saved in the Lease", "was", fmt.Sprintf("%.300s", k.Halted))
	}
}

// loaded notes that the state of the last leader is known and a new one is saved. From then on
// actions are admitted, unless something else holds them.
func (g *Gate) loaded() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loading = false
}

// startWithoutState lets the gate work without saving anything. It is not known then whether etcd
// was restored before this process began, so a person has to confirm the state. unread is true if
// the state of the last leader is not known.
func (g *Gate) startWithoutState(unread bool) {
	g.saver.mu.Lock()
	defer g.saver.mu.Unlock()
	g.saver.unread = unread
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loading, g.unconfirmed = false, true
	g.breaker.Persist(false)
	g.updateMetrics()
}

// Run restores the state of the last leader, then saves each change, and retries until that
// succeeds. It returns when ctx ends, or early if there is no State or no Lease. It calls changed
// after each step that may let actions through.
func (g *Gate) Run(ctx context.Context, changed func(context.Context)) {
	if g.saver.store == nil {
		return
	}
	read, err := g.restore(ctx)
	if errors.Is(err, election.ErrNoLease) {
		g.log.Warn("a pause, the circuit breaker and its counts will be lost on restart", "reason", err.Error())
		g.startWithoutState(!read)
	}
	changed(ctx)
	if err != nil {
		return
	}
	timer := time.NewTimer(saveDelay)
	defer timer.Stop()
	var late <-chan time.Time // when counts that are not urgent are saved
	for backoff := (wait.Backoff{Min: saveRetryMin, Max: saveRetryMax}); ctx.Err() == nil; {
		urgent, dirty := g.unsaved()
		if late == nil && dirty {
			timer.Reset(saveDelay)
			late = timer.C
		}
		if !urgent {
			select {
			case <-ctx.Done():
				return
			case <-g.saver.wake:
				continue
			case <-late:
			}
		}
		late = nil
		if err := g.Save(ctx); err != nil && ctx.Err() == nil {
			if backoff.First() {
				g.log.Error("cannot write the Lease: pause and limits would be lost on restart; deletions stop when the reserved count is used up", "reason", "the lease cannot be written", "error", err)
			}
			wait.Sleep(ctx, backoff.Next())
			continue
		}
		backoff.Reset()
		changed(ctx)
	}
}

// restore reads the state of the last leader and saves a new one. It retries until it succeeds, ctx
// ends, or there is certainly no Lease to keep state in: then it returns [election.ErrNoLease]. read
// is true once the state of the last leader was read.
func (g *Gate) restore(ctx context.Context) (read bool, err error) {
	var refused time.Time // since when each answer was a refusal; zero: the last was none
	for backoff := (wait.Backoff{Min: saveRetryMin, Max: saveRetryMax}); ; {
		if !read {
			var k election.State
			if k, err = g.saver.read(ctx); err == nil {
				read = true
				g.restoreState(k)
			}
		}
		if read {
			err = g.write(ctx, false)
		}
		if err == nil {
			g.loaded()
			return true, nil
		}
		switch now := time.Now(); {
		case !errors.Is(err, election.ErrNoLease):
			refused = time.Time{}
		case refused.IsZero():
			refused = now
		case now.Sub(refused) >= noLeaseAfter:
			return read, err
		}
		if backoff.First() && ctx.Err() == nil {
			g.log.Error("deletions wait until the Lease shows whether the previous leader was paused or had its circuit breaker open", "reason", "the lease cannot be read or written", "error", err)
		}
		if !wait.Sleep(ctx, backoff.Next()) {
			return read, ctx.Err()
		}
	}
}

func (s *saver) read(ctx context.Context) (election.State, error) {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, err := s.store.Read(ctx)
	s.saved = election.State{Halted: kept.Halted, Mode: kept.Mode}
	return kept, err
}

// Save saves the state of the gate unless it is saved already. Only the leader may call it.
func (g *Gate) Save(ctx context.Context) error {
	if g.saver.store == nil || g.isLoading() {
		return nil
	}
	if urgent, dirty := g.unsaved(); !urgent && !dirty {
		return nil
	}
	err := g.write(ctx, false)
	if err != nil {
		g.saver.notify() // Run tries again
	}
	return err
}

// unsaved reports whether the state of the gate must be saved at once (urgent), and whether the
// saved counts are out of date (dirty).
func (g *Gate) unsaved() (urgent, dirty bool) {
	k := &g.saver
	k.mu.Lock()
	defer k.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.loading && (g.state() != k.saved || g.breaker.SaveDue(time.Now())), g.breaker.Dirty()
}

// SaveFinal saves the exact counts at an orderly end: no more deletions follow, so it reserves
// none.
func (g *Gate) SaveFinal(ctx context.Context) {
	if g.saver.store == nil || g.isLoading() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, finalSaveTimeout)
	defer cancel()
	if err := g.write(ctx, true); err != nil && !errors.Is(err, election.ErrNoLease) {
		g.log.Warn("cannot write the Lease: the next leader will over-count past deletions", "reason", "the lease cannot be written", "error", err)
	}
}

// write saves the state of the gate. If last is set, it reserves no deletions. It returns
// [election.ErrLost] if the Lease is not held, and [election.ErrNoLease] if the state of the last leader
// was not read.
func (g *Gate) write(ctx context.Context, last bool) error {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	k := &g.saver
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.unread {
		return election.ErrNoLease
	}
	g.mu.Lock()
	if g.leaseHeld != nil && !g.leaseHeld() {
		g.mu.Unlock()
		return election.ErrLost
	}
	state := g.state()
	kept := state
	kept.Deletions = g.breaker.Snapshot(time.Now(), last)
	g.mu.Unlock()
	if err := k.store.Write(ctx, kept); err != nil {
		return err
	}
	k.saved = state
	g.mu.Lock()
	defer g.mu.Unlock()
	g.breaker.Saved()
	return nil
}

// notify wakes the saver after a change.
func (s *saver) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
