package cluster

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/election"
)

// Memory keeps words for whoever leads next: annotations of the Lease.
type Memory interface {
	Read(ctx context.Context) (election.Kept, error)
	Write(ctx context.Context, k election.Kept) error
}

const (
	keepRetryMin, keepRetryMax = 250 * time.Millisecond, 10 * time.Second
	keepTimeout                = 5 * time.Second
	// keepLastTimeout bounds the last word, which the Lease waits for.
	keepLastTimeout = 2 * time.Second
	// keepAfter is how long after deletions their number is written down, unless it is
	// wanted sooner: what was claimed ahead is given back.
	keepAfter = 5 * time.Second

	wordPaused, wordBraked, wordRestored = "paused", "braked", "restored"
)

// keeper has a pause by hand, the brake and what it has counted outlive this process:
// who restarts a controller in the middle of what a brake has stopped does not mean that
// it should go on, or begin to count anew. Until it is known how it was left, and
// written down that there is somebody new, nothing is sent.
type keeper struct {
	memory Memory        // nil: there is none
	kick   chan struct{} // something has changed

	mu      sync.Mutex // held over a request
	written string     // the halts
}

// halts are the words for how a door stands. The caller holds the lock.
func (d *door) halts() string {
	var words []string
	if d.paused {
		words = append(words, wordPaused)
	}
	if d.braked {
		words = append(words, wordBraked)
	}
	if d.restored {
		words = append(words, wordRestored)
	}
	return strings.Join(words, " ")
}

// asks says that nobody has told yet how it was left.
func (d *door) asks() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unknown
}

// recall takes over how the last leader left it. A word that nobody knows is a pause, and
// counts that nobody can read are too many. From then on counts are kept.
func (d *door) recall(k election.Kept) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range strings.FieldsSeq(k.Halted) {
		switch w {
		case wordBraked:
			d.braked = true
		case wordRestored:
			d.restored = true
		default:
			d.paused = true
		}
	}
	if err := d.brake.Recall(time.Now(), k.Deletions); err != nil {
		d.braked = true
		d.log.Error("deletions stop: how many there were is not known; look at /decisions, then POST /control/resume", "reason", "kept on the lease", "error", err)
	}
	d.brake.Keep(true)
	d.show()
	if d.waiting() {
		d.log.Warn("nodes and volumes wait: look at what came back, then POST /control/confirm-restore", "reason", "kept on the lease")
	}
	if d.paused || d.braked {
		d.log.Warn("it is as it was left: look at why, then POST /control/resume", "reason", "kept on the lease", "was", short(k.Halted))
	}
}

// known opens the door.
func (d *door) known() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unknown = false
}

// forgetful has the door go on without anything being kept. Then nobody knows whether etcd
// was restored before this process began.
func (d *door) forgetful() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unknown, d.restored = false, true
	d.brake.Keep(false)
	d.show()
}

// keep runs until ctx ends: it recalls, then writes what changes, until that succeeded.
func (c *Controller) keep(ctx context.Context) {
	err := c.recall(ctx)
	if errors.Is(err, election.ErrNoMark) {
		c.log.Warn("a pause by hand, the brake and its counts will not outlive a restart", "reason", err.Error())
		c.door.forgetful()
	}
	c.nudge(ctx)
	if err != nil {
		return
	}
	timer := time.NewTimer(keepAfter)
	defer timer.Stop()
	var late <-chan time.Time // when the counts are written down that are in no hurry
	for pause := keepRetryMin; ctx.Err() == nil; {
		urgent, dirty := c.door.unwritten(&c.keeper)
		if late == nil && dirty {
			timer.Reset(keepAfter)
			late = timer.C
		}
		if !urgent {
			select {
			case <-ctx.Done():
				return
			case <-c.keeper.kick:
				continue
			case <-late:
			}
		}
		late = nil
		if err := c.keepNow(ctx); err != nil && ctx.Err() == nil {
			if pause == keepRetryMin {
				c.log.Error("a restart would not know how it stands, and after some more deletions none are sent", "reason", "the lease cannot be written", "error", err)
			}
			sleep(ctx, pause)
			pause = min(2*pause, keepRetryMax)
			continue
		}
		pause = keepRetryMin
		c.nudge(ctx)
	}
}

// nudge has the loop look at the door, as it does after whatever it is asked.
func (c *Controller) nudge(ctx context.Context) { _ = c.enter(ctx, func(time.Time) {}) }

// recall reads how it was left, and writes that somebody new is at it. It tries until it
// may not.
func (c *Controller) recall(ctx context.Context) error {
	read := false
	for pause := keepRetryMin; ; pause = min(2*pause, keepRetryMax) {
		var err error
		if !read {
			var k election.Kept
			if k, err = c.keeper.read(ctx); err == nil {
				read = true
				c.door.recall(k)
			}
		}
		if read {
			err = c.write(ctx, false)
		}
		if err == nil {
			c.door.known()
			return nil
		}
		if errors.Is(err, election.ErrNoMark) {
			return err
		}
		if pause == keepRetryMin && ctx.Err() == nil {
			c.log.Error("nothing is sent before it is known whether it was paused or braked", "reason", "the lease cannot be read or written", "error", err)
		}
		if !sleep(ctx, pause) || ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (k *keeper) read(ctx context.Context) (election.Kept, error) {
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	kept, err := k.memory.Read(ctx)
	k.written = kept.Halted
	return kept, err
}

// keepNow writes how the door stands, if that is not written. Only who leads does.
func (c *Controller) keepNow(ctx context.Context) error {
	if c.keeper.memory == nil || !c.leads.Load() || c.door.asks() {
		return nil
	}
	if urgent, dirty := c.door.unwritten(&c.keeper); !urgent && !dirty {
		return nil
	}
	return c.write(ctx, false)
}

// unwritten says whether the Lease does not say how the door stands, and whether that is
// to be mended at once.
func (d *door) unwritten(k *keeper) (urgent, dirty bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.unknown && (d.halts() != k.written || d.brake.Wanted(time.Now())), d.brake.Dirty()
}

// keepLast says, at an orderly end, what was counted, and that nothing more comes.
func (c *Controller) keepLast(ctx context.Context) {
	if c.keeper.memory == nil || c.door.asks() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepLastTimeout)
	defer cancel()
	if err := c.write(ctx, true); err != nil && !errors.Is(err, election.ErrNoMark) {
		c.log.Warn("who leads next takes more for deleted than was", "reason", "the lease cannot be written", "error", err)
	}
}

// write how the door stands.
func (c *Controller) write(ctx context.Context, last bool) error {
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	k, d := &c.keeper, c.door
	k.mu.Lock()
	defer k.mu.Unlock()
	d.mu.Lock()
	if d.holds != nil && !d.holds() {
		d.mu.Unlock()
		return election.ErrLost
	}
	kept := election.Kept{Halted: d.halts(), Deletions: d.brake.Record(time.Now(), last)}
	d.mu.Unlock()
	if err := k.memory.Write(ctx, kept); err != nil {
		return err
	}
	k.written = kept.Halted
	d.mu.Lock()
	defer d.mu.Unlock()
	d.brake.Kept()
	return nil
}

// changed has the keeper look.
func (k *keeper) changed() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}
