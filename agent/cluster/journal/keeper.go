package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/breaker"
	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/election"
	"github.com/ebb-agent/ebb/agent/cluster/events"
	"github.com/ebb-agent/ebb/agent/cluster/gate"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/runtime/wait"
)

const (
	// minWriteInterval is the least time between two writes of the journal: records requested
	// within it are written together.
	minWriteInterval = 100 * time.Millisecond
	// retryMin and retryMax bound the pause after the journal could not be
	// taken over.
	retryMin, retryMax = 250 * time.Millisecond, 15 * time.Second
	// writeTimeout bounds one write, and one attempt to take the journal over.
	writeTimeout = 20 * time.Second
	// maxHeldNamed bounds the owners that get an event because their orphaning waits.
	maxHeldNamed = 1024
)

// Graph is the graph of owners. Its methods reach it through the loop that owns it.
type Graph interface {
	// Do runs do in the loop, and returns when it has run. An error means that the loop, or ctx,
	// has ended.
	Do(ctx context.Context, do func(now time.Time, c *cascade.Collector)) error
	// CaughtUp waits until each type has caught up, and returns those that may hide dependents, with
	// the reason.
	CaughtUp(ctx context.Context) (holders map[string]error, err error)
}

// Options configure a [Keeper].
type Options struct {
	Store    Store
	Election config.LeaderElection // the journal is named after its Lease
	Log      *slog.Logger
	Metrics  *Metrics // see [NewMetrics]
	Gate     *gate.Gate
	Graph    Graph
	Warn     func(o gc.Coordinates, reason, message string) // queues an event
}

// Keeper keeps the journal of orphaned owners, in goroutines of its own.
//
// Before the finalizer orphan is removed, the owner's UID is stored in the journal; the gate
// refuses to remove such a finalizer otherwise. Nothing is sent for owners before the journal is taken
// over, which also fences a predecessor that wakes up late. Records that are requested within 100 ms are
// written together. While owners are observed, the journal is read and not written.
type Keeper struct {
	log     *slog.Logger
	metrics *Metrics
	gate    *gate.Gate
	graph   Graph
	warn    func(o gc.Coordinates, reason, message string)
	journal *Journal
	name    string // namespace/name, for messages
	wake    chan struct{}
	grew    chan struct{} // the collector may have more entries

	mu      sync.Mutex
	pending []gc.Action // Record and Withdraw, in order
	forget  []string    // UIDs that a sweep has dropped
	stale   bool        // the journal must be taken over again: etcd was restored

	// Owned by the goroutine of Run.
	read, owned bool            // the journal, by this process, since it began or etcd was restored
	retry       bool            // the last attempt failed: try again although nothing is pending
	held        map[string]bool // UIDs of owners that have got an event, because they wait

	problem atomic.Pointer[string] // why the journal cannot be written; nil or empty: it can be
}

// NewKeeper returns a Keeper that reads and writes nothing until Run.
func NewKeeper(o Options) *Keeper {
	name := o.Election.JournalName()
	return &Keeper{log: o.Log, metrics: o.Metrics, gate: o.Gate, graph: o.Graph, warn: o.Warn, journal: New(o.Store, name), name: o.Election.Namespace + "/" + name,
		wake: make(chan struct{}, 1), grew: make(chan struct{}, 1), held: map[string]bool{}}
}

// Has reports whether an owner is in the stored journal.
func (k *Keeper) Has(uid string) bool { return k.journal.Has(uid) }

// Add queues a Record or a Withdraw. It never blocks.
func (k *Keeper) Add(a gc.Action) {
	k.mu.Lock()
	k.pending = append(k.pending, a)
	k.mu.Unlock()
	k.Notify()
}

// forgetNow queues the removal of owners that a sweep has dropped, and wakes Run.
func (k *Keeper) forgetNow(uids []string) {
	k.forgetLater(uids)
	k.Notify()
}

// forgetLater queues the removal of owners for the next write.
func (k *Keeper) forgetLater(uids []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget = append(k.forget, uids...)
}

// Reload has Run take the journal over again: after an etcd restore it may be an older one.
func (k *Keeper) Reload() {
	k.mu.Lock()
	k.stale = true
	k.mu.Unlock()
	k.Notify()
}

// Notify wakes Run, which then checks the mode again and writes what is pending.
func (k *Keeper) Notify() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// takePending returns what is to be written, and clears it.
func (k *Keeper) takePending() (actions []gc.Action, forget []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	actions, forget = k.pending, k.forget
	k.pending, k.forget = nil, nil
	return actions, forget
}

// Problem returns why owners cannot be orphaned; empty if they can.
func (k *Keeper) Problem() string {
	if p := k.problem.Load(); p != nil {
		return *p
	}
	return ""
}

// ready reports whether the journal is as the mode needs it: taken over or, while owners are
// observed, read.
func (k *Keeper) ready(observes bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stale {
		k.stale, k.read, k.owned = false, false, false
		k.forget = nil // of the journal before: what the restored one has is swept again
	}
	return k.owned || observes && k.read
}

// Run keeps the journal until ctx ends, and removes old entries from it. It calls fenced when
// another process has taken the journal over, which only a leader does.
func (k *Keeper) Run(ctx context.Context, fenced context.CancelCauseFunc) {
	var sweeps sync.WaitGroup
	defer sweeps.Wait()
	sweeps.Go(func() { k.runSweeps(ctx) })
	backoff := wait.Backoff{Min: retryMin, Max: retryMax}
	for ctx.Err() == nil {
		err := k.update(ctx)
		if errors.Is(err, ErrFenced) {
			k.log.Error("exiting: another process writes the journal of orphaned owners", "reason", "fenced", "journal", k.name)
			fenced(election.ErrLost)
			return
		}
		if k.retry = err != nil; k.retry {
			wait.Sleep(ctx, backoff.Next())
			continue
		}
		backoff.Reset()
		wait.Sleep(ctx, minWriteInterval)
		select {
		case <-ctx.Done():
		case <-k.wake:
		}
	}
}

// update takes the journal over if that is due, and writes what is pending. An error means that it has to
// be tried again.
func (k *Keeper) update(ctx context.Context) error {
	for !k.ready(k.gate.OwnersObserved()) { // again if etcd was restored meanwhile
		err := k.take(ctx)
		if k.setProblem(err); err != nil {
			k.refuse(ctx, err)
			return err
		}
	}
	if err := k.write(ctx); !errors.Is(err, ErrFull) {
		return err
	}
	return nil // room comes with a sweep, which writes
}

// take takes the journal over and gives its entries to the collector, before anything is sent for it.
// While owners are observed it only reads the journal; if that fails, the gate does not wait for
// it.
func (k *Keeper) take(ctx context.Context) error {
	observes := k.gate.OwnersObserved()
	found, err := k.find(ctx, observes)
	if len(found.Lost) > 0 {
		k.log.Error("part of the journal of orphaned owners is lost: late dependents of the owners in it will be deleted",
			"reason", "somebody deleted it", "parts", strings.Join(found.Lost, ", "))
	}
	entries := make([]cascade.Entry, 0, len(found.Entries))
	for uid, at := range found.Entries {
		entries = append(entries, cascade.Entry{UID: uid, Recorded: at})
	}
	// If there is no journal, and none can be kept, ebb has never orphaned an owner: then only
	// orphaning waits.
	known := err == nil || found.Absent && errors.Is(err, ErrRefused)
	err = errors.Join(err, k.graph.Do(ctx, func(now time.Time, c *cascade.Collector) {
		c.Recall(now, entries)
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.stale {
			return // etcd was restored meanwhile: another journal is there now
		}
		k.read, k.owned = err == nil, err == nil && !observes
		k.gate.SetJournal(known || observes, known && !observes)
	}))
	k.notifySweeper()
	return err
}

// find reads the journal or, unless owners are observed, takes it over.
func (k *Keeper) find(ctx context.Context, observes bool) (Taken, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if observes {
		return k.journal.Read(ctx)
	}
	known := map[string]time.Time{}
	if err := k.graph.Do(ctx, func(_ time.Time, c *cascade.Collector) {
		for _, e := range c.Journal() {
			known[e.UID] = e.Recorded
		}
	}); err != nil {
		return Taken{}, err
	}
	return k.journal.TakeOver(ctx, known)
}

// write stores what is pending, and answers the records. After a failure it writes although nothing
// is pending any more, to find out whether the journal can be written.
func (k *Keeper) write(ctx context.Context) error {
	actions, forget := k.takePending()
	begun := time.Now()
	var admitted []gc.Action
	var refused []answer
	var later []string
	add := map[string]time.Time{}
	for _, a := range actions {
		switch why, _ := k.gate.Admit(begun, a); {
		case why != "":
			k.gate.Report(a, why, metadata.Outcome{}, begun)
			refused = append(refused, answer{a, resultOfRefusal(why)})
			if a.Verb == gc.Withdraw {
				later = append(later, a.Object.UID) // the collector has dropped it
			}
		case a.Verb == gc.Withdraw:
			k.gate.Finish(breaker.Grant{}, gc.Done)
			delete(add, a.Object.UID)
			forget = append(forget, a.Object.UID)
		default:
			add[a.Object.UID] = begun
			admitted = append(admitted, a)
		}
	}
	k.answer(ctx, refused)
	k.forgetLater(later)
	if k.gate.OwnersObserved() && len(admitted) == 0 {
		k.forgetLater(forget)
		k.setProblem(nil)
		return nil
	}
	if len(add) == 0 && len(forget) == 0 && !k.retry {
		return nil
	}
	writing, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := k.journal.Write(writing, add, forget)
	k.metrics.wrote(k.journal.Len(), err)
	k.setProblem(err)
	outcome := metadata.Outcome{Result: gc.Done, Took: time.Since(begun)}
	if err != nil {
		outcome.Result, outcome.Err = gc.Failed, err
		k.forgetLater(forget)
	}
	var answers []answer
	for _, a := range admitted {
		k.gate.Finish(breaker.Grant{}, outcome.Result)
		k.gate.Report(a, outcome.Result.String(), outcome, begun)
		answers = append(answers, answer{a, outcome.Result})
		k.explain(a, err)
	}
	k.answer(ctx, answers)
	k.notifySweeper()
	return err
}

// refuse answers all pending records with a failure.
func (k *Keeper) refuse(ctx context.Context, err error) {
	actions, _ := k.takePending()
	var answers []answer
	for _, a := range actions {
		answers = append(answers, answer{a, gc.Failed})
		k.explain(a, err)
	}
	k.answer(ctx, answers)
}

// answer is how an action went.
type answer struct {
	action gc.Action
	result gc.Result
}

// answer returns results of Records to the collector. Afterwards its entries are those that are
// stored, also if ctx has ended.
func (k *Keeper) answer(ctx context.Context, answers []answer) {
	if len(answers) == 0 {
		return
	}
	_ = k.graph.Do(context.WithoutCancel(ctx), func(now time.Time, c *cascade.Collector) {
		for _, a := range answers {
			if a.action.Verb == gc.Record {
				c.Finished(now, a.action.ID, a.result)
			}
		}
	})
}

// explain creates an event on an owner whose orphaning waits, because of err; nil: it does not.
func (k *Keeper) explain(a gc.Action, err error) {
	if err == nil || a.Verb != gc.Record || k.held[a.Object.UID] || len(k.held) >= maxHeldNamed {
		return
	}
	k.held[a.Object.UID] = true
	k.warn(a.Object, events.Held, fmt.Sprintf(
		"its dependents would not be safe: the journal of orphaned owners %s cannot be written: %.300s", k.name, err))
}

// setProblem notes why owners cannot be orphaned at present, and logs a change.
func (k *Keeper) setProblem(err error) {
	problem := ""
	if err != nil && !errors.Is(err, context.Canceled) {
		problem = err.Error()
	}
	k.metrics.held.Set(program.Bool(problem != ""))
	switch {
	case problem == k.Problem():
	case problem == "":
		clear(k.held)
		k.log.Info("orphaning of owners goes on", "reason", "nothing waits for the journal of orphaned owners", "journal", k.name)
	case errors.Is(err, ErrRefused):
		k.log.Error("orphaning of owners waits", "reason", "the journal of orphaned owners cannot be written", "journal", k.name, "error", err,
			"help", "make the namespace, and allow get, create, update, delete and list on its configmaps")
	default:
		k.log.Error("orphaning of owners waits", "reason", "the journal of orphaned owners cannot be written", "journal", k.name, "error", err)
	}
	k.problem.Store(&problem)
}

// resultOfRefusal returns what a refusal of the gate means for the collector.
func resultOfRefusal(why string) gc.Result {
	if why == gate.Observed || why == gate.Excluded {
		return gc.Withheld
	}
	return gc.Failed
}
