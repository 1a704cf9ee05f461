package history

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bolt "go.etcd.io/bbolt"

	"github.com/ebb-agent/ebb/agent/node/condition"
)

const (
	// waitMost bounds how long a removal waits for its entry. An SSD needs a few milliseconds
	// for a transaction, and the wait of an image for its last check comes first.
	waitMost = 100 * time.Millisecond

	// waitingMost bounds the entries that wait in memory for a file that can be written.
	waitingMost = 1000

	// refusalsMost bounds the refusals that are remembered, and repeatWithin for how long, so that one that
	// repeats itself is one entry.
	refusalsMost = 1000
	repeatWithin = time.Hour
)

// unwritable is the condition.
const unwritable = "history"

// Options is what a History is made of.
type Options struct {
	Now        func() time.Time // ebb's clock
	Wall       func() time.Time
	Conditions *condition.Set
	limits     limits // zero: the standard
}

// History may be used by several goroutines.
type History struct {
	o       Options
	metrics *metrics
	wake    chan struct{} // something waits to be written
	ended   chan struct{} // Run has

	mu       sync.Mutex
	file     file
	queue    queue
	left     []*Attempt         // nobody knows what became of them
	refusals map[string]refusal // the last refusal of each thing
}

// queue is what waits to be written.
type queue struct {
	waiting []*Attempt // in the order of their beginning, each once
	round   *round     // the write that takes them
	hangs   bool       // somebody has given up waiting for a write, and it goes on
	closed  bool
}

// round is one write.
type round struct{ over chan struct{} }

func newRound() *round { return &round{over: make(chan struct{})} }

// New registers the metrics. It starts nothing, and has no file yet.
func New(r *prometheus.Registry, o Options) *History {
	if o.limits == (limits{}) {
		o.limits = standard
	}
	return &History{
		o: o, metrics: newMetrics(r), wake: make(chan struct{}, 1), ended: make(chan struct{}),
		queue: queue{round: newRound()}, refusals: make(map[string]refusal),
	}
}

// Attach gives the History the state file, and reads what an earlier agent has begun. It is called
// once. The file may be closed after [History.Close], or at any time with the loss of what waits.
func (h *History) Attach(db *bolt.DB) {
	f, without, err := openFile(db, h.o.limits)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.o.Conditions.Begin(unwritable, slog.LevelWarn, "cannot read the removal history; removals continue without it", "error", err)
		return
	}
	if slices.Contains(f.damaged[:], true) {
		h.o.Conditions.Begin(unwritable, slog.LevelWarn, "part of the removal history is damaged and starts empty", "reason", "damaged state file")
	}
	h.file = f
	for _, l := range without {
		a := &Attempt{h: h, entry: l.entry, key: l.key, at: begun, why: "the agent ended meanwhile"}
		h.left = append(h.left, a)
	}
	h.wakeUp()
}

// Run writes what is appended until Close. It outlives the context, for the last entries.
func (h *History) Run(context.Context) error {
	defer close(h.ended)
	for range h.wake {
		h.write()
	}
	h.write()
	return nil
}

// Close has the last entries written, and ends Run. What comes later is lost.
func (h *History) Close() {
	h.mu.Lock()
	if !h.queue.closed {
		h.queue.closed = true
		close(h.wake)
	}
	h.mu.Unlock()
	<-h.ended
}

// Retry writes what could not be written before, if there is any: the state file can be now.
func (h *History) Retry() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue.waiting) > 0 {
		h.wakeUp()
	}
}

// wakeUp has Run write. Its caller holds mu.
func (h *History) wakeUp() {
	if h.queue.closed {
		return
	}
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// enqueue has an attempt written as it is when its turn comes. Its caller holds mu.
func (h *History) enqueue(a *Attempt) {
	q := &h.queue
	if !a.waits {
		a.waits = true
		q.waiting = append(q.waiting, a)
		h.bound()
	}
	a.round = q.round
	h.wakeUp()
}

// bound gives up the oldest entries if too many wait. Its caller holds mu.
func (h *History) bound() {
	q := &h.queue
	for n := len(q.waiting) - waitingMost; n > 0; n-- {
		q.waiting[0].waits = false
		q.waiting = q.waiting[1:]
		h.metrics.lost.Inc()
	}
}

// write writes all that waits, in one transaction. Only Run calls it, and it does not hold mu while
// it writes.
func (h *History) write() {
	h.mu.Lock()
	f, batch, r := h.file, h.queue.waiting, h.queue.round
	h.queue.waiting, h.queue.round = nil, newRound()
	var records []record
	batch = slices.DeleteFunc(batch, func(a *Attempt) bool {
		a.waits = false
		one := a.record()
		nothing := one.was == nowhere && one.is == nowhere
		if !nothing {
			records = append(records, one)
		}
		return nothing
	})
	h.mu.Unlock()
	defer close(r.over)
	if len(batch) == 0 && !slices.Contains(f.damaged[:], true) {
		return
	}
	next, keys, err := f, []uint64(nil), errNoFile
	if f.db != nil {
		next, keys, err = f.write(records, h.o.Now(), h.o.Wall())
	}
	h.written(next, batch, records, keys, err)
}

// written takes note of how a write went.
func (h *History) written(next file, batch []*Attempt, records []record, keys []uint64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue.hangs = false
	if err != nil {
		h.metrics.failures.Inc()
		again := slices.DeleteFunc(batch, func(a *Attempt) bool { return a.waits })
		for _, a := range again {
			a.waits = true // for the next write, whenever that is: nobody waits for it
		}
		h.queue.waiting = append(again, h.queue.waiting...)
		h.bound()
		h.o.Conditions.Begin(unwritable, slog.LevelWarn, "cannot write the removal history; removals continue without it", "error", err)
		return
	}
	h.file = next
	for n, a := range batch {
		a.key, a.at = keys[n], records[n].is
		if a.at == nowhere {
			a.key = 0
		}
		if name := shelfNames[a.at]; name != "" && records[n].was != a.at {
			h.metrics.appended.WithLabelValues(name).Inc()
		}
	}
	h.o.Conditions.End(unwritable, "the history of removals is written again")
}

// Durable waits until these are in the file, or could not be written; for a bounded time, and not
// at all while a write hangs that somebody has given up waiting for.
func (h *History) Durable(ctx context.Context, attempts ...*Attempt) {
	h.mu.Lock()
	rounds, hangs := make([]*round, 0, len(attempts)), h.queue.hangs
	for _, a := range attempts {
		if a != nil && a.round != nil && !slices.Contains(rounds, a.round) {
			rounds = append(rounds, a.round)
		}
	}
	h.mu.Unlock()
	timer := time.NewTimer(waitMost)
	defer timer.Stop()
	for _, r := range rounds {
		select {
		case <-r.over:
			continue
		default:
		}
		if hangs {
			h.metrics.late.Inc()
			return
		}
		select {
		case <-r.over:
		case <-ctx.Done():
			return
		case <-timer.C:
			h.metrics.late.Inc()
			h.giveUp(r)
			return
		}
	}
}

// giveUp has nobody wait for a write that takes too long.
func (h *History) giveUp(r *round) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-r.over: // just now
	default:
		h.queue.hangs = true
	}
}
