package cluster

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/election"
)

// Memory keeps a word for whoever leads next: an annotation of the Lease.
type Memory interface {
	Read(ctx context.Context) (string, error)
	Write(ctx context.Context, word string) error
}

const (
	keepRetryMin, keepRetryMax = 250 * time.Millisecond, 10 * time.Second
	keepTimeout                = 5 * time.Second

	wordPaused, wordBraked = "paused", "braked"
)

// keeper has a pause by hand and the brake outlive this process: who restarts a
// controller in the middle of what a brake has stopped does not mean that it should go
// on. Until it is known how it was left, nothing is sent.
type keeper struct {
	memory Memory        // nil: there is none
	kick   chan struct{} // something has changed

	mu      sync.Mutex // held over a request
	written string
}

// halts are the words for how a door stands.
func (d *door) halts() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var words []string
	if d.paused {
		words = append(words, wordPaused)
	}
	if d.braked {
		words = append(words, wordBraked)
	}
	return strings.Join(words, " ")
}

// asks says that nobody has told yet how it was left.
func (d *door) asks() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unknown
}

// recall takes over how the last leader left it. A word that nobody knows is a pause.
func (d *door) recall(word string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unknown = false
	for w := range strings.FieldsSeq(word) {
		if w == wordBraked {
			d.braked = true
		} else {
			d.paused = true
		}
	}
	d.show()
	if word != "" {
		d.log.Warn("nothing is sent, as it was left: look at why, then POST /control/resume", "reason", "kept on the lease", "was", short(word))
	}
}

// keep runs until ctx ends: it recalls, then writes what changes, until that succeeded.
func (c *Controller) keep(ctx context.Context) {
	k := &c.keeper
	told := false
	for pause := keepRetryMin; ; pause = min(2*pause, keepRetryMax) {
		word, err := k.read(ctx)
		if err == nil {
			c.door.recall(word)
			_ = c.enter(ctx, func(time.Time) {}) // the loop looks at the door after whatever it is asked
			break
		}
		if errors.Is(err, election.ErrNoMark) {
			c.log.Warn("a pause by hand and the brake will not outlive a restart", "reason", err.Error())
			c.door.recall("")
			_ = c.enter(ctx, func(time.Time) {})
			return
		}
		if !told && ctx.Err() == nil {
			told = true
			c.log.Error("nothing is sent before it is known whether it was paused or braked", "reason", "the lease cannot be read", "error", err)
		}
		if !sleep(ctx, pause) || ctx.Err() != nil {
			return
		}
	}
	for pause := keepRetryMin; ctx.Err() == nil; {
		if err := c.keepNow(ctx); err != nil && ctx.Err() == nil {
			if pause == keepRetryMin {
				c.log.Error("a restart would go on although it is paused or braked", "reason", "the lease cannot be written", "error", err)
			}
			sleep(ctx, pause)
			pause = min(2*pause, keepRetryMax)
			continue
		}
		pause = keepRetryMin
		select {
		case <-ctx.Done():
		case <-k.kick:
		}
	}
}

func (k *keeper) read(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	word, err := k.memory.Read(ctx)
	k.written = word
	return word, err
}

// keepNow writes how the door stands, if that is not written. Only who leads does.
func (c *Controller) keepNow(ctx context.Context) error {
	k := &c.keeper
	if k.memory == nil || !c.leads.Load() || c.door.asks() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	word := c.door.halts()
	if word == k.written {
		return nil
	}
	if err := k.memory.Write(ctx, word); err != nil {
		return err
	}
	k.written = word
	return nil
}

// changed has the keeper look.
func (k *keeper) changed() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}
