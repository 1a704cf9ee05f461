package cascade

import (
	"container/heap"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Collector is the graph and what is to be done about it. It is not safe for
// concurrent use: one goroutine owns it.
type Collector struct {
	store
	config       Config
	namespaces   table
	otherUIDs    table
	kinds        kinds
	versions     map[index]string // resourceVersions that are no numbers
	queue        []index          // looked at next, in this order
	head         int              // of queue: what is before was looked at
	work         map[index]*work
	inFlight     map[uint64]index
	lastID       uint64
	alarms       alarms
	held         []index // wait for types to be listed
	incomplete   int     // types that are not
	journal      journal
	out          []gc.Action
	tombstones   tombstones
	absent       quarantine
	excludedNS   map[string]bool
	heldReported map[index]bool // of owners: that what is excluded holds them
	roots        roots
	lanes        lanes
	now          time.Time // of the input at hand
}

// work is what the collector knows of a node it is busy with; most have none.
type work struct {
	id        uint64 // of the action on its way
	verb      gc.Verb
	seen      bool      // the object was seen in a new version since
	sent      bool      // it was done, and its effect has not been seen
	wanted    bool      // a dependent wants a live answer
	reread    bool      // the node itself does
	conflict  bool      // the last action met one
	unchanged bool      // it was read since, and nothing that matters had changed
	moved     bool      // the last action was about another version than the one before
	tried     string    // the version that it was about
	overtaken bool      // a list came between the read on its way and its answer
	disputed  bool      // a live read differed from the stream
	asRead    string    // the version that one returned that said the same
	conflicts uint8     // in a row
	failures  uint8     // in a row
	due       time.Time // nothing is done before
	recheck   time.Time // of an owner that no watch reports
	readAt    time.Time // the last live answer
	last      gc.Result
	reason    gc.Reason // of the last action
	// The action that the caller withheld; 0: none.
	withheld    gc.Verb
	withheldFor gc.Reason
}

// New makes an empty collector.
func New(config Config) *Collector {
	c := &Collector{
		config:       config.withDefaults(),
		versions:     make(map[index]string),
		work:         make(map[index]*work),
		inFlight:     make(map[uint64]index),
		heldReported: make(map[index]bool),
	}
	c.pages = []*[pageSize]node{new([pageSize]node)}
	c.uuids, c.others = newUIDIndex(), make(map[string]index)
	c.tombstones.capacity = c.config.Tombstones
	c.absent = quarantine{make(map[index]*absence), make(map[uint64]witness), make(map[uint32]bool), make(map[uint32]index)}
	c.excludeNamespaces(config.ExcludedNamespaces)
	return c
}

// Len is the number of nodes: objects, and owners that were never seen.
func (c *Collector) Len() int { return c.live }

// Ready gives the next actions, most at most, in the order in which they became
// due; the rest stays. Take only what is carried out at once: what an action
// rests on may be no older than Config.FreshFor.
//
// Every action must be answered, by its ID: with Answered or Finished. The result of one
// that is not carried out is Failed; Deferred answers a Delete that the caller does not
// want now, after [Collector.Slow] (of one root) or [Collector.Hold] (of all) limited them
// it does; Withheld answers what the caller does not want to do at all (it only
// observes), and the same is not asked for again until the object changes. Call Ready
// again at [Collector.Next].
func (c *Collector) Ready(now time.Time, most int) []gc.Action {
	c.now = now
	c.ring()
	c.openLanes()
	for c.head < len(c.queue) && len(c.out) < most {
		i := c.queue[c.head]
		c.head++
		n := c.at(i)
		n.flags &^= queued
		if n.next != 0 { // not dropped meanwhile
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

// Next is when something changes by itself: the earliest moment at which Ready
// may have more to say without further input. Zero if never; a time that has
// passed if it has something now.
func (c *Collector) Next() time.Time {
	if c.head < len(c.queue) || len(c.out) > 0 {
		return c.now
	}
	for len(c.alarms) > 0 && !c.valid(c.alarms[0]) {
		heap.Pop(&c.alarms)
	}
	next := c.lanes.next
	if len(c.alarms) > 0 && (next.IsZero() || c.alarms[0].at.Before(next)) {
		next = c.alarms[0].at
	}
	return next
}

// wake has a node looked at.
func (c *Collector) wake(i index) {
	if n := c.at(i); n.flags&queued == 0 {
		n.flags |= queued
		c.queue = append(c.queue, i)
	}
}

// wakeFirst has a node looked at before all others: what was read of it just now gets
// old while it waits. If it is in the queue already, it is looked at twice.
func (c *Collector) wakeFirst(i index) {
	c.at(i).flags |= queued
	if c.head == 0 {
		c.queue = slices.Insert(c.queue, 0, i)
		return
	}
	c.head--
	c.queue[c.head] = i
}

// wakeDependents has all dependents of a UID looked at.
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

// alarm is a moment at which a node is looked at again.
type alarm struct {
	at   time.Time
	node index // 0: those in held
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

// valid alarms are those that were not put off or called off since.
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
