package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/brake"
	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/election"
	"github.com/ebb-agent/ebb/agent/cluster/journal"
	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

const (
	// journalGap is the least time between two writes of the journal: what is asked for
	// within it goes together.
	journalGap = 100 * time.Millisecond
	// journalRetryMin and journalRetryMax bound the pause after the journal could not be
	// taken over.
	journalRetryMin, journalRetryMax = 250 * time.Millisecond, 15 * time.Second
	// journalTimeout bounds one write, and one attempt to take the journal over.
	journalTimeout = 20 * time.Second
	// mostHeldNamed bounds the owners that are told that they are held.
	mostHeldNamed = 1024
)

// orphans keeps the durable journal of orphaned owners, beside the loop.
type orphans struct {
	journal *journal.Journal
	name    string // for people
	kick    chan struct{}

	mu      sync.Mutex
	pending []gc.Action // Record and Withdraw, in order
	forget  []string    // UIDs that a sweep has done with
	stale   bool        // it must be taken over again: etcd was restored

	// Of the goroutine of keepJournal alone.
	read, taken bool            // by this process, since it began or etcd was restored
	held        map[string]bool // UIDs of owners that were told that they wait

	problem atomic.Pointer[string] // why it cannot be written; nil or empty: it can be
}

func newOrphans(store journal.Store, c config.LeaderElection) *orphans {
	name := c.JournalName()
	return &orphans{journal: journal.New(store, name), name: c.Namespace + "/" + name, kick: make(chan struct{}, 1), held: map[string]bool{}}
}

// ask hands over a Record or a Withdraw. It never blocks.
func (o *orphans) ask(a gc.Action) {
	o.mu.Lock()
	o.pending = append(o.pending, a)
	o.mu.Unlock()
	o.look()
}

// done hands over what a sweep has done with.
func (o *orphans) done(uids []string) {
	o.later(uids)
	o.look()
}

// later keeps what could not be forgotten for the next write.
func (o *orphans) later(uids []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forget = append(o.forget, uids...)
}

// restored has the journal taken over again: the cluster's may be an older one.
func (o *orphans) restored() {
	o.mu.Lock()
	o.stale = true
	o.mu.Unlock()
	o.look()
}

func (o *orphans) look() {
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// batch takes what is to be written.
func (o *orphans) batch() (actions []gc.Action, forget []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	actions, forget = o.pending, o.forget
	o.pending, o.forget = nil, nil
	return actions, forget
}

// holds is why owners cannot be orphaned; empty if they can.
func (o *orphans) holds() string {
	if p := o.problem.Load(); p != nil {
		return *p
	}
	return ""
}

// ready says whether the journal is as the mode wants it: taken over or, by who only
// observes, read.
func (o *orphans) ready(observes bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stale {
		o.stale, o.read, o.taken = false, false, false
	}
	return o.taken || observes && o.read
}

// keepJournal runs until ctx ends. fenced is told when another process has taken the
// journal over, which only a leader does.
func (c *Controller) keepJournal(ctx context.Context, fenced context.CancelCauseFunc) {
	o, pause := c.orphans, journalRetryMin
	for ctx.Err() == nil {
		if !o.ready(c.door.observes()) {
			err := c.takeJournal(ctx)
			if c.heldBy(err); err != nil {
				c.answerRecords(err)
				sleep(ctx, pause)
				pause = min(2*pause, journalRetryMax)
				continue
			}
			pause = journalRetryMin
		}
		if !await(ctx, o.kick, 0) {
			return
		}
		err := c.writeJournal(ctx)
		if errors.Is(err, journal.ErrFenced) {
			c.log.Error("ending: another process writes the journal of orphaned owners", "reason", "fenced", "journal", o.name)
			fenced(election.ErrLost)
			return
		}
		sleep(ctx, journalGap)
	}
}

// await waits until it is kicked or, if d is not 0, for a while. It says whether ctx
// goes on.
func await(ctx context.Context, kick <-chan struct{}, d time.Duration) bool {
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-kick:
	case <-over:
	}
	return true
}

// sleep says whether it was not ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	return d <= 0 || await(ctx, nil, d)
}

// takeJournal takes the journal over and has the collector know what is in it, before
// anything is sent. Who only observes reads it, and goes on without if that fails.
func (c *Controller) takeJournal(ctx context.Context) (err error) {
	o, observes := c.orphans, c.door.observes()
	ctx, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	var found journal.Taken
	if observes {
		found, err = o.journal.Read(ctx)
		o.read = err == nil
	} else {
		known := map[string]time.Time{}
		if c.enter(ctx, func(time.Time) {
			for _, e := range c.collector.Journal() {
				known[e.UID] = e.Recorded
			}
		}) != nil {
			return errIdle
		}
		found, err = o.journal.TakeOver(ctx, known)
		o.taken = err == nil
	}
	if len(found.Lost) > 0 {
		c.log.Error("a part of the journal of orphaned owners is gone: dependents of the owners in it that are seen late are deleted",
			"reason", "somebody deleted it", "parts", some(found.Lost))
	}
	entries := make([]cascade.Entry, 0, len(found.Entries))
	for uid, at := range found.Entries {
		entries = append(entries, cascade.Entry{UID: uid, Recorded: at})
	}
	// Where there is no journal, and none can be kept, nobody was ever orphaned by ebb:
	// then only orphaning waits.
	known := err == nil || found.Absent && errors.Is(err, journal.ErrRefused)
	return errors.Join(err, c.enter(ctx, func(now time.Time) {
		c.collector.Recall(now, entries)
		c.door.knowJournal(known || observes, known && !observes)
	}))
}

// writeJournal stores what is asked for, and answers.
func (c *Controller) writeJournal(ctx context.Context) error {
	o := c.orphans
	actions, forget := o.batch()
	begun := time.Now()
	var admitted []gc.Action
	add := map[string]time.Time{}
	for _, a := range actions {
		switch why, _ := c.door.enter(begun, a); {
		case why != "":
			c.door.note(a, why, metadata.Outcome{}, begun)
			c.answerRecord(a, withheldBy(why), nil)
		case a.Verb == gc.Withdraw:
			c.door.leave(brake.Answer{}, gc.Done)
			delete(add, a.Object.UID)
			forget = append(forget, a.Object.UID)
		default:
			add[a.Object.UID] = begun
			admitted = append(admitted, a)
		}
	}
	if c.door.observes() || len(add) == 0 && len(forget) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	err := o.journal.Write(ctx, add, forget)
	c.metrics.journal(o.journal.Len(), err)
	c.heldBy(err)
	outcome := metadata.Outcome{Result: gc.Done, Took: time.Since(begun)}
	if err != nil {
		outcome.Result, outcome.Err = gc.Failed, err
		o.later(forget)
	}
	for _, a := range admitted {
		c.door.leave(brake.Answer{}, outcome.Result)
		c.door.note(a, outcome.Result.String(), outcome, begun)
		c.answerRecord(a, outcome.Result, err)
	}
	c.sweepSoon()
	return err
}

// answerRecords refuses all that is asked for.
func (c *Controller) answerRecords(err error) {
	actions, _ := c.orphans.batch()
	for _, a := range actions {
		c.answerRecord(a, gc.Failed, err)
	}
}

// answerRecord tells the collector how a Record went, and the owner that it waits.
func (c *Controller) answerRecord(a gc.Action, r gc.Result, err error) {
	if a.Verb != gc.Record {
		return
	}
	if o := c.orphans; err != nil && !o.held[a.Object.UID] && len(o.held) < mostHeldNamed {
		o.held[a.Object.UID] = true
		c.herald.say(metadata.Notice{Object: a.Object, Type: warning, Reason: eventHeld, Message: fmt.Sprintf(
			"its dependents would not be safe: the journal of orphaned owners %s cannot be written: %s", o.name, short(err.Error()))})
	}
	select {
	case c.answers <- answer{action: a, passage: passage{Outcome: metadata.Outcome{Result: r}}}:
	case <-c.ended:
	}
}

// heldBy notes why owners cannot be orphaned at present, and says it once.
func (c *Controller) heldBy(err error) {
	o, problem := c.orphans, ""
	if err != nil && !errors.Is(err, context.Canceled) {
		problem = err.Error()
	}
	c.metrics.orphaningHeld.Set(truth(problem != ""))
	switch {
	case problem == o.holds():
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

// withheldBy is what the gate's refusal of an action means for the collector.
func withheldBy(why string) gc.Result {
	if why == resultObserved || why == resultExcluded {
		return gc.Withheld
	}
	return gc.Failed
}

func short(s string) string {
	const most = 300
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
