package cascade

import (
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// journal remembers owners whose dependents were left behind. Nothing cheap proves that
// a watch is not late, so a dependent may be seen after its orphaned owner has gone.
// The journal tells that owner from one whose dependents are to go with it: the late
// dependent loses its reference, not its life.
//
// The caller keeps a durable copy: see [Record], [Collector.Recall] and [Withdraw].
type journal struct {
	uuids  map[uid]*orphaned
	others map[string]*orphaned // UIDs of another form
}

// orphaned is an owner in the journal.
type orphaned struct {
	recorded time.Time
	// left is when the finalizer orphan was known to be off at the latest; zero if it may
	// still be there.
	left time.Time
	// asked is set once the finalizer's removal was asked for, by this process or perhaps by
	// another: its absence alone then does not show that somebody else took it off.
	asked bool
}

// Entry is an owner in the journal, by its UID.
type Entry struct {
	UID      string
	Recorded time.Time
}

func (j *journal) of(id string) *orphaned {
	if u, ok := parseUUID(id); ok {
		return j.uuids[u]
	}
	return j.others[id]
}

func (j *journal) put(id string, o *orphaned) {
	if u, ok := parseUUID(id); ok {
		if j.uuids == nil {
			j.uuids = make(map[uid]*orphaned)
		}
		j.uuids[u] = o
		return
	}
	if j.others == nil {
		j.others = make(map[string]*orphaned)
	}
	j.others[strings.Clone(id)] = o
}

func (j *journal) drop(id string) {
	if u, ok := parseUUID(id); ok {
		delete(j.uuids, u)
		return
	}
	delete(j.others, id)
}

// entries are all, in an order that the inputs determine.
func (j *journal) entries() (list []Entry) {
	for u, o := range j.uuids {
		list = append(list, Entry{u.String(), o.recorded})
	}
	for id, o := range j.others {
		list = append(list, Entry{id, o.recorded})
	}
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.UID, b.UID) })
	return list
}

// entry is what the journal has of a node's UID; nil if nothing.
func (c *Collector) entry(i index) *orphaned {
	if n := c.at(i); n.flags&otherUID == 0 {
		return c.journal.uuids[n.uid]
	}
	return c.journal.others[c.uidOf(i)]
}

// Journal gives what is remembered, sorted by UID.
func (c *Collector) Journal() []Entry { return c.journal.entries() }

// Recall takes over what a durable journal has. It must be called before the first
// [Collector.Ready], and again when a journal that was restored has more.
func (c *Collector) Recall(now time.Time, entries []Entry) {
	c.now = now
	for _, e := range entries {
		if c.journal.of(e.UID) != nil {
			continue
		}
		c.journal.put(e.UID, &orphaned{recorded: e.Recorded, asked: true})
		for s := c.chain(e.UID); s != 0; s = c.at(s).same {
			c.wake(s)
		}
		if s := c.chain(e.UID); s != 0 {
			c.wakeDependents(s)
		}
	}
}

// record notes that an owner stands in the durable journal now.
func (c *Collector) record(i index) {
	if id := c.uidOf(i); c.journal.of(id) == nil {
		c.journal.put(id, &orphaned{recorded: c.now})
	}
}

// left notes that an owner has gone.
func (c *Collector) left(i index) {
	if e := c.entry(i); e != nil && e.left.IsZero() {
		e.left = c.now
	}
}

// Swept says that every type that can hold dependents has reported everything that had
// happened before begun: those that discovery names, in a discovery that was complete
// and began after it. It returns the UIDs that are forgotten now, because their
// owners had been left behind before begun, and recorded Config.KeepOrphaned ago. What
// something known still refers to stays.
func (c *Collector) Swept(now, begun time.Time) (forgotten []string) {
	c.now = now
	for _, known := range c.journal.entries() {
		e := c.journal.of(known.UID)
		switch there, referred := c.present(known.UID); {
		case there:
			e.left = time.Time{}
		case referred: // and cannot be helped at present
		case e.left.IsZero():
			e.left = now // no type has it: the next sweep counts
		case e.left.Before(begun) && now.Sub(e.recorded) >= c.config.KeepOrphaned:
			c.journal.drop(known.UID)
			forgotten = append(forgotten, known.UID)
		}
	}
	return forgotten
}

// present says whether any object with a UID is there, and whether any refers to it.
func (c *Collector) present(id string) (there, referred bool) {
	for s := c.chain(id); s != 0; s = c.at(s).same {
		there = there || c.at(s).flags&observed != 0
		referred = referred || len(c.at(s).dependents) > 0
	}
	return there, referred
}

// revived says whether an owner in the journal is there, and its dependents are not to
// be left behind any more: a DELETE with another policy took the finalizer orphan away,
// or an etcd was restored.
func (c *Collector) revived(i index, e *orphaned) bool {
	f := c.at(i).flags
	switch {
	case f&observed == 0 || f&restored != 0 || !c.reachable(i) || c.kinds.all[c.at(i).kind].phase == unwatched:
		return false // what a version that is not watched was read as may be old
	case f&terminating == 0:
		return true
	case f&wantsOrphan != 0:
		return false
	}
	return f&wantsForegr != 0 || !e.asked
}

// withdraw takes an owner out of the journal that was revived. Events may be old, so a
// live read has to show it. It says whether that is still to come.
func (c *Collector) withdraw(i index) (waits bool) {
	e := c.entry(i)
	if e == nil || !c.revived(i, e) {
		return false
	}
	if w := c.workOf(i); w.readAt.IsZero() || c.now.Sub(w.readAt) > c.config.FreshFor {
		w.reread = true
		c.readLive(i, w)
		return true
	}
	c.journal.drop(c.uidOf(i))
	c.out = append(c.out, gc.Action{Verb: gc.Withdraw, Object: c.coordinates(i), Reason: OrphaningCalledOff})
	return false
}

// decideOrphaning takes the finalizer orphan off once the journal has the owner and no
// reference to it is left that is known.
func (c *Collector) decideOrphaning(i index) {
	if c.notReported(i) {
		return // its type's end of that wakes it
	}
	w, e := c.workOf(i), c.entry(i)
	// Who only observes is asked for both, so that the record of decisions is complete.
	if e == nil && w.withheld != gc.Record && w.withheld != gc.RemoveFinalizer {
		a := c.action(i, gc.Record, OrphaningBegins, i, nil)
		a.Owner = gc.Coordinates{}
		c.emit(i, a)
		return
	}
	if c.referred(i) {
		return
	}
	if e != nil {
		e.asked = true
	}
	c.finalize(i, gc.OrphanFinalizer, c.at(i).orphanAt, DependentsGone)
}
