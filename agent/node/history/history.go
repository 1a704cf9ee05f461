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
	// waitMost bounds how long a removal waits for its entry. An SSD needs a few milliseconds for a
	// transaction, which runs while an image waits for its last check.
	waitMost = 100 * time.Millisecond

	// waitingMost bounds the entries that wait in memory until the file can be written.
	waitingMost = 1000

	// refusalsMost bounds how many refusals are remembered, and repeatWithin how long, so that a
	// repeated refusal is one entry.
	refusalsMost = 1000
	repeatWithin = time.Hour
)

// unwritable is the name of the condition.
const unwritable = "history"

// Options are the dependencies of a History.
type Options struct {
	Now        func() time.Time // ebb's clock
	Wall       func() time.Time
	Conditions *condition.Set
	limits     limits // zero: the standard
}

// History is safe for concurrent use.
type History struct {
	o       Options
	metrics *metrics
	wake    chan struct{} // signals that something waits to be written
	ended   chan struct{} // closed when Run returns
	again   time.Duration // after that a write that failed is tried again

	mu       sync.Mutex
	file     file
	queue    queue
	left     []*Attempt         // their outcomes are unknown
	refusals map[string]refusal // the last refusal of each thing
}

// queue is what waits to be written.
type queue struct {
	waiting []*Attempt // in the order of queueing, each once
	round   *round     // the write that will include them
	hangs   bool       // a caller gave up waiting for a write that still runs
	failed  bool       // the last write failed: a timer wakes Run
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
		again: time.Minute, queue: queue{round: newRound()}, refusals: make(map[string]refusal),
	}
}

// Attach gives the History the state file, and reads which removals an earlier agent has begun. It
// is called once. Close the file after [History.Close]: closed before, the entries that wait are
// lost.
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

// Run writes appended entries until Close. It ignores the context, so that the last entries are
// written.
func (h *History) Run(context.Context) error {
	defer close(h.ended)
	for range h.wake {
		h.write()
	}
	h.write()
	return nil
}

// Close waits until Run has written the last entries and returned. Later entries are lost.
func (h *History) Close() {
	h.mu.Lock()
	if !h.queue.closed {
		h.queue.closed = true
		close(h.wake)
	}
	h.mu.Unlock()
	<-h.ended
}

// retry has Run write what could not be written.
func (h *History) retry() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue.failed = false
	h.wakeUp()
}

// wakeUp makes Run write. Its caller holds mu.
func (h *History) wakeUp() {
	if h.queue.closed {
		return
	}
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// enqueue queues an attempt. It is written in the state that it has when its turn comes. The caller
// holds mu.
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

// bound drops the oldest entries if too many wait. Its caller holds mu.
func (h *History) bound() {
	q := &h.queue
	for n := len(q.waiting) - waitingMost; n > 0; n-- {
		q.waiting[0].waits = false
		q.waiting = q.waiting[1:]
		h.metrics.lost.Inc()
	}
}

// write writes everything that waits, in one transaction. Only Run calls it. It does not hold mu
// while it writes.
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

// written records the result of a write.
func (h *History) written(next file, batch []*Attempt, records []record, keys []uint64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue.hangs = false
	if err != nil {
		h.metrics.failures.Inc()
		again := slices.DeleteFunc(batch, func(a *Attempt) bool { return a.waits })
		for _, a := range again {
			a.waits = true // for the next write; no caller waits for it
		}
		if !h.queue.failed && h.file.db != nil {
			h.queue.failed = true
			time.AfterFunc(h.again, h.retry)
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

// Durable waits until these attempts are in the file, or could not be written. It waits at most
// waitMost, and not at all while a write hangs that another caller gave up waiting for.
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

// giveUp notes that a write takes too long, so that no other caller waits for it.
func (h *History) giveUp(r *round) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-r.over: // it ended just now
	default:
		h.queue.hangs = true
	}
}
