package cascade

import (
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// journal remembers owners whose dependents were orphaned. No cheap check proves that a
// watch is not late, so a dependent may be seen after its orphaned owner is gone. The
// journal distinguishes that owner from one whose dependents are deleted with it. The late
// dependent of an orphaned owner only loses its reference.
//
// The caller keeps a durable copy: see [gc.Record], [Collector.Recall] and [gc.Withdraw].
type journal map[gc.UID]*orphaned

// orphaned is an owner in the journal.
type orphaned struct {
	odd      string // its UID, if that is not a UUID
	recorded time.Time
	// left is a time by which the finalizer orphan was certainly removed; zero if it may
	// still be there.
	left time.Time
	// asked is set once the removal of the finalizer was requested, by this process or
	// perhaps by another. After that, its absence alone does not prove that another
	// component removed it.
	asked bool
}

// Entry is an owner in the journal, by its UID.
type Entry struct {
	UID      string
	Recorded time.Time
}

func (j journal) of(id string) *orphaned { return j[gc.UIDOf(id)] }

func (j journal) put(id string, o *orphaned) {
	u := gc.UIDOf(id)
	if !u.Exact() {
		o.odd = strings.Clone(id)
	}
	j[u] = o
}

// entries returns all entries, sorted by UID.
func (j journal) entries() (list []Entry) {
	for u, o := range j {
		text := o.odd
		if u.Exact() {
			text = u.String()
		}
		list = append(list, Entry{text, o.recorded})
	}
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.UID, b.UID) })
	return list
}

// entry returns the journal's entry for a node's UID; nil if there is none.
func (c *Collector) entry(i index) *orphaned { return c.journal[c.at(i).uid] }

// Journal returns all entries, sorted by UID.
func (c *Collector) Journal() []Entry { return c.journal.entries() }

// Recall adds the entries of a durable journal. It must be called before the first
// [Collector.Ready], and again if a restored journal has more entries. An entry of the future
// counts as recorded now.
func (c *Collector) Recall(now time.Time, entries []Entry) {
	c.now = now
	for _, e := range entries {
		if c.journal.of(e.UID) != nil {
			continue
		}
		if e.Recorded.After(now) {
			e.Recorded = now
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

// record notes that the durable journal has an owner now.
func (c *Collector) record(i index) {
	if c.entry(i) == nil {
		c.journal.put(c.uidOf(i), &orphaned{recorded: c.now})
	}
}

// left notes that an owner is gone.
func (c *Collector) left(i index) {
	if e := c.entry(i); e != nil && e.left.IsZero() {
		e.left = c.now
	}
}

// Swept forgets old entries, and returns their UIDs. The caller guarantees that every type
// that can hold dependents has reported everything that happened before begun. These are
// the types in a discovery that was complete and began after begun. An entry is forgotten
// if its owner was gone before begun and it was recorded at least Config.KeepOrphaned ago.
// An entry stays if a known object still refers to its UID.
func (c *Collector) Swept(now, begun time.Time) (forgotten []string) {
	c.now = now
	for _, known := range c.journal.entries() {
		e := c.journal.of(known.UID)
		switch there, referred := c.present(known.UID); {
		case there:
			e.left = time.Time{}
		case referred: // kept: the references cannot be removed now
		case e.left.IsZero():
			e.left = now // no type has it: the next sweep counts
		case e.left.Before(begun) && now.Sub(e.recorded) >= c.config.KeepOrphaned:
			delete(c.journal, gc.UIDOf(known.UID))
			forgotten = append(forgotten, known.UID)
		}
	}
	return forgotten
}

// present reports whether any object with a UID exists, and whether any object refers to
// it.
func (c *Collector) present(id string) (there, referred bool) {
	for s := c.chain(id); s != 0; s = c.at(s).same {
		there = there || c.at(s).flags&observed != 0
		referred = referred || len(c.at(s).dependents) > 0
	}
	return there, referred
}

// revived reports whether an owner in the journal exists and its dependents are not to be
// orphaned any more. Either a DELETE with another policy removed the finalizer orphan, or
// etcd was restored.
func (c *Collector) revived(i index, e *orphaned) bool {
	f := c.at(i).flags
	switch {
	case f&observed == 0 || f&restored != 0 || !c.reachable(i) || c.kinds.all[c.at(i).kind].phase == unwatched:
		return false // a read of an unwatched version may be old
	case f&terminating == 0:
		return true
	case f&wantsOrphan != 0:
		return false
	}
	return f&wantsForegr != 0 || !e.asked
}

// withdraw removes an owner that was revived from the journal. Events may be old, so a live
// read must confirm it. withdraw reports whether that read is still to come.
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
	delete(c.journal, c.at(i).uid)
	c.out = append(c.out, gc.Action{Verb: gc.Withdraw, Object: c.coordinates(i), Reason: OrphaningCalledOff})
	return false
}

// decideOrphaning removes the finalizer orphan once the journal has the owner and no known
// reference to it is left.
func (c *Collector) decideOrphaning(i index) {
	if c.notReported(i) {
		return // Synced of its type wakes it
	}
	w, e := c.workOf(i), c.entry(i)
	// A caller that only observes withholds both actions. Both are emitted, so that the
	// record of decisions is complete.
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
