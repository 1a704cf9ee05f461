package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/breaker"
	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/election"
	"github.com/ebb-agent/ebb/agent/cluster/events"
	"github.com/ebb-agent/ebb/agent/cluster/gate"
	"github.com/ebb-agent/ebb/agent/cluster/journal"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/runtime/wait"
)

const (
	// minWriteInterval is the least time between two writes of the journal: what is asked for
	// within it goes together.
	minWriteInterval = 100 * time.Millisecond
	// journalRetryMin and journalRetryMax bound the pause after the journal could not be
	// taken over.
	journalRetryMin, journalRetryMax = 250 * time.Millisecond, 15 * time.Second
	// journalTimeout bounds one write, and one attempt to take the journal over.
	journalTimeout = 20 * time.Second
	// maxHeldNamed bounds the owners that get an event that they are held.
	maxHeldNamed = 1024
)

// orphanJournal writes the durable journal of orphaned owners, beside the loop.
//
// Before the finalizer orphan is removed, the owner's UID is stored in the journal
// (package journal); the gate refuses to remove such a finalizer otherwise. Nothing is
// sent before the journal is taken over, which also fences a predecessor that wakes up
// late. Records that are asked for within 100 ms are written together. In mode observe
// the journal is read and not written.
type orphanJournal struct {
	journal *journal.Journal
	name    string // for people
	wake    chan struct{}
	grew    chan struct{} // something came into it

	mu      sync.Mutex
	pending []gc.Action // Record and Withdraw, in order
	forget  []string    // UIDs that a sweep has done with
	stale   bool        // it must be taken over again: etcd was restored

	// Of the goroutine of runJournal alone.
	read, owned bool            // by this process, since it began or etcd was restored
	held        map[string]bool // UIDs of owners that have an event that they wait

	problem atomic.Pointer[string] // why it cannot be written; nil or empty: it can be
}

func newOrphanJournal(store journal.Store, c config.LeaderElection) *orphanJournal {
	name := c.JournalName()
	return &orphanJournal{journal: journal.New(store, name), name: c.Namespace + "/" + name, wake: make(chan struct{}, 1), grew: make(chan struct{}, 1), held: map[string]bool{}}
}

// add queues a Record or a Withdraw. It never blocks.
func (j *orphanJournal) add(a gc.Action) {
	j.mu.Lock()
	j.pending = append(j.pending, a)
	j.mu.Unlock()
	j.notify()
}

// forgetNow removes owners that a sweep has done with.
func (j *orphanJournal) forgetNow(uids []string) {
	j.forgetLater(uids)
	j.notify()
}

// forgetLater keeps what could not be removed for the next write.
func (j *orphanJournal) forgetLater(uids []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.forget = append(j.forget, uids...)
}

// reload has the journal taken over again: after a restore it may be an older one.
func (j *orphanJournal) reload() {
	j.mu.Lock()
	j.stale = true
	j.mu.Unlock()
	j.notify()
}

func (j *orphanJournal) notify() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// takePending takes what is to be written.
func (j *orphanJournal) takePending() (actions []gc.Action, forget []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	actions, forget = j.pending, j.forget
	j.pending, j.forget = nil, nil
	return actions, forget
}

// holdReason is why owners cannot be orphaned; empty if they can.
func (j *orphanJournal) holdReason() string {
	if p := j.problem.Load(); p != nil {
		return *p
	}
	return ""
}

// ready says whether the journal is as the mode wants it: taken over or, by who only
// observes, read.
func (j *orphanJournal) ready(observes bool) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stale {
		j.stale, j.read, j.owned = false, false, false
	}
	return j.owned || observes && j.read
}

// runJournal runs until ctx ends. It calls fenced when another process has taken the
// journal over, which only a leader does.
func (c *Controller) runJournal(ctx context.Context, fenced context.CancelCauseFunc) {
	o, backoff := c.orphans, wait.Backoff{Min: journalRetryMin, Max: journalRetryMax}
	for ctx.Err() == nil {
		if !o.ready(c.gate.OwnersObserved()) {
			err := c.takeJournal(ctx)
			if c.setOrphaningProblem(err); err != nil {
				c.refuseRecords(err)
				wait.Sleep(ctx, backoff.Next())
				continue
			}
			backoff.Reset()
		}
		select {
		case <-ctx.Done():
			return
		case <-o.wake:
		}
		err := c.writeJournal(ctx)
		if errors.Is(err, journal.ErrFenced) {
			c.log.Error("ending: another process writes the journal of orphaned owners", "reason", "fenced", "journal", o.name)
			fenced(election.ErrLost)
			return
		}
		wait.Sleep(ctx, minWriteInterval)
	}
}

// takeJournal takes the journal over and has the collector know what is in it, before
// anything is sent. Who only observes reads it, and goes on without if that fails.
func (c *Controller) takeJournal(ctx context.Context) (err error) {
	o, observes := c.orphans, c.gate.OwnersObserved()
	ctx, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	var found journal.Taken
	if observes {
		found, err = o.journal.Read(ctx)
		o.read = err == nil
	} else {
		known := map[string]time.Time{}
		if c.loop.do(ctx, func(time.Time) {
			for _, e := range c.owners.Journal() {
				known[e.UID] = e.Recorded
			}
		}) != nil {
			return errIdle
		}
		found, err = o.journal.TakeOver(ctx, known)
		o.owned = err == nil
	}
	if len(found.Lost) > 0 {
		c.log.Error("a part of the journal of orphaned owners is gone: dependents of the owners in it that are seen late are deleted",
			"reason", "somebody deleted it", "parts", firstNames(found.Lost))
	}
	entries := make([]cascade.Entry, 0, len(found.Entries))
	for uid, at := range found.Entries {
		entries = append(entries, cascade.Entry{UID: uid, Recorded: at})
	}
	// Where there is no journal, and none can be kept, nobody was ever orphaned by ebb:
	// then only orphaning waits.
	known := err == nil || found.Absent && errors.Is(err, journal.ErrRefused)
	return errors.Join(err, c.loop.do(ctx, func(now time.Time) {
		c.owners.Recall(now, entries)
		c.gate.SetJournal(known || observes, known && !observes)
	}))
}

// writeJournal stores what is asked for, and answers.
func (c *Controller) writeJournal(ctx context.Context) error {
	o := c.orphans
	actions, forget := o.takePending()
	begun := time.Now()
	var admitted []gc.Action
	add := map[string]time.Time{}
	for _, a := range actions {
		switch why, _ := c.gate.Admit(begun, a); {
		case why != "":
			c.gate.Report(a, why, metadata.Outcome{}, begun)
			c.answerRecord(a, resultOfRefusal(why), nil)
		case a.Verb == gc.Withdraw:
			c.gate.Finish(breaker.Grant{}, gc.Done)
			delete(add, a.Object.UID)
			forget = append(forget, a.Object.UID)
		default:
			add[a.Object.UID] = begun
			admitted = append(admitted, a)
		}
	}
	if c.gate.OwnersObserved() || len(add) == 0 && len(forget) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	err := o.journal.Write(ctx, add, forget)
	c.metrics.journal(o.journal.Len(), err)
	c.setOrphaningProblem(err)
	outcome := metadata.Outcome{Result: gc.Done, Took: time.Since(begun)}
	if err != nil {
		outcome.Result, outcome.Err = gc.Failed, err
		o.forgetLater(forget)
	}
	for _, a := range admitted {
		c.gate.Finish(breaker.Grant{}, outcome.Result)
		c.gate.Report(a, outcome.Result.String(), outcome, begun)
		c.answerRecord(a, outcome.Result, err)
	}
	c.notifySweeper()
	return err
}

// refuseRecords refuses all pending records.
func (c *Controller) refuseRecords(err error) {
	actions, _ := c.orphans.takePending()
	for _, a := range actions {
		c.answerRecord(a, gc.Failed, err)
	}
}

// answerRecord informs the collector how a Record went, and the owner that it waits.
func (c *Controller) answerRecord(a gc.Action, r gc.Result, err error) {
	if a.Verb != gc.Record {
		return
	}
	if o := c.orphans; err != nil && !o.held[a.Object.UID] && len(o.held) < maxHeldNamed {
		o.held[a.Object.UID] = true
		c.events.Warn(a.Object, events.Held, fmt.Sprintf(
			"its dependents would not be safe: the journal of orphaned owners %s cannot be written: %s", o.name, truncate(err.Error())))
	}
	select {
	case c.requests.answers <- answer{action: a, Outcome: gate.Outcome{Outcome: metadata.Outcome{Result: r}}}:
	case <-c.loop.ended:
	}
}

// setOrphaningProblem notes why owners cannot be orphaned at present, and logs a change.
func (c *Controller) setOrphaningProblem(err error) {
	o, problem := c.orphans, ""
	if err != nil && !errors.Is(err, context.Canceled) {
		problem = err.Error()
	}
	c.metrics.orphaningHeld.Set(program.Bool(problem != ""))
	switch {
	case problem == o.holdReason():
	case problem == "":
		clear(o.held)
		c.log.Info("owners can be orphaned again", "reason", "the journal of orphaned owners can be written", "journal", o.name)
	case errors.Is(err, journal.ErrRefused):
		c.log.Error("owners wait to be orphaned", "reason", "the journal of orphaned owners cannot be written", "journal", o.name, "error", err,
			"help", "make the namespace, and allow get, create, update, delete and list on its configmaps")
	default:
		c.log.Error("owners wait to be orphaned", "reason", "the journal of orphaned owners cannot be written", "journal", o.name, "error", err)
	}
	o.problem.Store(&problem)
}

// resultOfRefusal is what the gate's refusal of an action means for the collector.
func resultOfRefusal(why string) gc.Result {
	if why == gate.Observed || why == gate.Excluded {
		return gc.Withheld
	}
	return gc.Failed
}

func truncate(s string) string {
	const most = 300
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
