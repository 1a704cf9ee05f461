package cascade

import (
	"container/heap"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Collector is the dependency graph and the work on it. It is not safe for concurrent use:
// one goroutine owns it.
type Collector struct {
	store
	config       Config
	namespaces   table
	kinds        kinds
	versions     map[index]string // resourceVersions that are not numbers
	queue        []index          // nodes to evaluate, in this order
	head         int              // of queue: the nodes before it are done
	work         map[index]*work
	inFlight     map[uint64]index
	lastID       uint64
	alarms       alarms
	held         []index // nodes that wait for types to be listed
	incomplete   int     // types that are not listed
	journal      journal
	out          []gc.Action
	tombstones   tombstones
	absent       quarantine
	excludedNS   map[string]bool
	heldReported map[index]bool // owners for which HeldByExcluded was emitted
	roots        roots
	throttles    throttles
	now          time.Time // of the current input
}

// work is the state of a node that the collector is busy with. Most nodes have none.
type work struct {
	id        uint64 // of the action in flight; 0: none
	verb      gc.Verb
	seen      bool      // the object was seen in a new version since the action
	sent      bool      // the action is Done, but its effect was not seen yet
	wanted    bool      // a dependent needs a live read of it (Verify)
	reread    bool      // the node itself needs a live read (Read)
	conflict  bool      // the last action met a conflict
	unchanged bool      // read since the conflict; nothing relevant had changed
	moved     bool      // the last action had another version than the one before
	tried     string    // the version of the last action
	overtaken bool      // a list ended while the read was in flight
	released  bool      // Release was called since the action: Withheld may be older
	disputed  bool      // a live read differed from the stream
	asRead    string    // version of a live read that agreed with the stream
	conflicts uint8     // in a row
	failures  uint8     // in a row
	due       time.Time // no action before
	recheck   time.Time // next live read of an owner without a watch
	readAt    time.Time // when the last live read was sent
	last      gc.Result
	reason    gc.Reason // of the last action
	// The verb and reason of the action that the caller withheld; 0: none.
	withheld    gc.Verb
	withheldFor gc.Reason
}

// New returns an empty collector.
func New(config Config) *Collector {
	c := &Collector{
		config:       config.withDefaults(),
		versions:     make(map[index]string),
		work:         make(map[index]*work),
		inFlight:     make(map[uint64]index),
		heldReported: make(map[index]bool),
		journal:      make(journal),
	}
	c.pages = []*[pageSize]node{new([pageSize]node)}
	c.uids, c.texts = gc.NewUIDIndex(func(i index) gc.UID { return c.at(i).uid }), make(gc.UIDTexts)
	c.tombstones.capacity = c.config.Tombstones
	c.absent = quarantine{make(map[index]*absence), make(map[uint64]witness), make(map[uint32]bool), make(map[uint32]index)}
	c.excludeNamespaces(config.ExcludedNamespaces)
	return c
}

// Len is the number of nodes: objects, and owners that were never seen.
func (c *Collector) Len() int { return c.live }

// Ready returns the next actions, up to most of them, in the order in which they became
// due. The rest stays queued. Take only actions that are carried out at once: the state
// that an action rests on may be no older than Config.FreshFor.
//
// Every action with an ID must be answered by that ID, with Answered or Finished. Three
// results are for actions that were not carried out:
//
//   - Deferred: the caller does not want this Delete now. Before this answer it limits the
//     deletions of one root with [Collector.Slow], or all with [Collector.Hold].
//   - Withheld: the caller does not want the action at all (it only observes). Ready does
//     not return the same action again until the object changes.
//   - Failed: any other reason.
//
// Call Ready again at [Collector.Next].
func (c *Collector) Ready(now time.Time, most int) []gc.Action {
	c.now = now
	c.ring()
	c.refillThrottles()
	for c.head < len(c.queue) && len(c.out) < most {
		i := c.queue[c.head]
		c.head++
		n := c.at(i)
		n.flags &^= queued
		if n.next != 0 { // not dropped since
			c.decide(i)
		}
	}
	if c.head > len(c.queue)/2 {
		c.queue = slices.Delete(c.queue, 0, c.head)
		c.head = 0
	}
	take := min(most, len(c.out))
	actions := slices.Clone(c.out[:take])
	c.out = slices.Delete(c.out, 0, take)
	return actions
}

// Next is the earliest time at which Ready may return more without further input. It is
// zero if there is none. It is a past time if Ready has more now.
func (c *Collector) Next() time.Time {
	if c.head < len(c.queue) || len(c.out) > 0 {
		return c.now
	}
	for len(c.alarms) > 0 && !c.valid(c.alarms[0]) {
		heap.Pop(&c.alarms)
	}
	next := c.throttles.next
	if len(c.alarms) > 0 && (next.IsZero() || c.alarms[0].at.Before(next)) {
		next = c.alarms[0].at
	}
	return next
}

// wake queues a node for evaluation.
func (c *Collector) wake(i index) {
	if n := c.at(i); n.flags&queued == 0 {
		n.flags |= queued
		c.queue = append(c.queue, i)
	}
}

// wakeFirst queues a node before all others, because its live read gets old while it waits.
// A node that is queued already is evaluated twice.
func (c *Collector) wakeFirst(i index) {
	c.at(i).flags |= queued
	if c.head == 0 {
		c.queue = slices.Insert(c.queue, 0, i)
		return
	}
	c.head--
	c.queue[c.head] = i
}

// wakeDependents queues all dependents of a node's UID.
func (c *Collector) wakeDependents(i index) {
	for s := c.firstOf(i); s != 0; s = c.at(s).same {
		for _, d := range c.at(s).dependents {
			c.wake(d.dependent)
		}
	}
}

func (c *Collector) workOf(i index) *work {
	w := c.work[i]
	if w == nil {
		w = new(work)
		c.work[i] = w
	}
	return w
}

func (c *Collector) forgetWork(i index) {
	delete(c.absent.absences, i)
	if w := c.work[i]; w != nil {
		delete(c.inFlight, w.id)
		delete(c.work, i)
	}
}

// rest drops a node's work once it is empty.
func (c *Collector) rest(i index) {
	w := c.work[i]
	if w == nil || w.id != 0 || w.sent || w.wanted || w.reread || w.withheld != 0 || !w.recheck.IsZero() || w.due.After(c.now) {
		return
	}
	if w.readAt.IsZero() || c.now.Sub(w.readAt) > c.config.FreshFor {
		delete(c.work, i)
	}
}

// alarm is a time at which a node is evaluated again.
type alarm struct {
	at   time.Time
	node index // 0: the nodes in held
}

type alarms []alarm

func (a alarms) Len() int { return len(a) }
func (a alarms) Less(i, j int) bool {
	return a[i].at.Before(a[j].at) || a[i].at.Equal(a[j].at) && a[i].node < a[j].node
}
func (a alarms) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *alarms) Push(x any)   { *a = append(*a, x.(alarm)) }
func (a *alarms) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

func (c *Collector) wait(i index, d time.Duration) {
	w := c.workOf(i)
	w.due = c.now.Add(d)
	heap.Push(&c.alarms, alarm{w.due, i})
}

// valid reports whether an alarm was not postponed or cancelled since.
func (c *Collector) valid(a alarm) bool {
	if a.node == 0 {
		return len(c.held) > 0
	}
	w := c.work[a.node]
	return w != nil && (w.due.Equal(a.at) || w.recheck.Equal(a.at))
}

func (c *Collector) ring() {
	for len(c.alarms) > 0 && !c.alarms[0].at.After(c.now) {
		a := heap.Pop(&c.alarms).(alarm)
		if !c.valid(a) {
			continue
		}
		if a.node != 0 {
			c.wake(a.node)
			continue
		}
		c.releaseHeld()
	}
}
