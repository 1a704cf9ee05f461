package cascade

import (
	"container/heap"
	"time"
)

// take finds the node an answer is about; 0 if nobody waits for it any more.
func (c *Collector) take(now time.Time, id uint64) (index, *work) {
	c.now = now
	i, ok := c.inFlight[id]
	if !ok {
		return 0, nil
	}
	delete(c.inFlight, id)
	w := c.work[i]
	w.id = 0
	return i, w
}

// Answered takes what a live read told that an action with this ID asked for
// (Verify, Read). asOf is when the read was sent: what it told was true then or
// later.
func (c *Collector) Answered(now, asOf time.Time, id uint64, a Answer) {
	i, w := c.take(now, id)
	if i == 0 {
		return
	}
	switch {
	case a.State == Exists && a.Object.UID == c.uidOf(i):
		c.exists(i, w, asOf, a.Object)
	case a.State == Exists && a.Object.UID != "", a.State == Absent:
		c.vanish(i, proven)
	case a.State == TooBusy:
		c.wait(i, c.config.RetryMin)
	default:
		c.retry(i, w, c.config.RetryMin)
	}
}

func (c *Collector) exists(i index, w *work, asOf time.Time, o Object) {
	w.wanted, w.reread, w.readAt = false, false, asOf
	if !w.conflict {
		w.failures = 0
	}
	n := c.at(i)
	k := &c.kinds.all[n.kind]
	// What it was read as is what was asked for, whatever the answer calls it.
	o.APIVersion, o.Kind, o.Name, o.Namespace = k.apiVersion, k.kind, n.name, c.namespaces.all[n.namespace].text
	if k.phase == unwatched {
		o.Owners = nil // it is an owner here, nothing else: its watched self has what it refers to
	}
	version, waits := n.version, n.flags
	c.Observe(c.now, o)
	if n.flags&observed != 0 && n.version == version && w.conflict {
		// The very version that the action met a conflict with, or nothing new.
		w.uidOnly = true
	}
	if k := &c.kinds.all[n.kind]; k.phase != synced && k.phase != listing {
		// No watch will tell of its end: ask again, in a while.
		w.recheck = c.now.Add(c.config.Recheck)
		heap.Push(&c.alarms, alarm{w.recheck, i})
	}
	c.wake(i)
	if n.flags&observed == 0 || waits&(terminating|doubted) != 0 || n.flags&terminating != 0 {
		c.wakeDependents(i)
	}
}

// Finished takes how an action with this ID went. The object that a successful
// patch returned must have been observed before.
func (c *Collector) Finished(now time.Time, id uint64, r Result) {
	i, w := c.take(now, id)
	if i == 0 {
		return
	}
	w.last = r
	switch r {
	case Done:
		w.failures, w.conflicts, w.conflict, w.uidOnly = 0, 0, false, false
		if !w.seen || w.verb == Delete && c.at(i).flags&terminating == 0 {
			// The watch will tell; until then the same must not be done twice.
			w.sent = true
			c.wait(i, c.config.Settle)
		}
	case Conflict:
		w.conflict, w.reread = true, true
		w.conflicts = min(w.conflicts+1, hot)
		if w.failures++; w.failures > hot {
			c.retry(i, w, c.config.RetryMin)
		}
	case Gone:
		c.vanish(i, proven)
		return
	case TooMany:
		c.wait(i, c.config.RetryMin) // it is no failure of the object's: no longer each time
	case Withheld:
		w.withheld, w.withheldFor = w.verb, w.reason
	case Forbidden:
		c.retry(i, w, max(c.config.RetryMin, c.config.RetryMax/16))
	default:
		c.retry(i, w, c.config.RetryMin)
	}
	c.wake(i)
}

// retry puts a node off, for longer each time.
func (c *Collector) retry(i index, w *work, from time.Duration) {
	pause := min(from<<min(w.failures, 20), c.config.RetryMax)
	if pause <= 0 {
		pause = c.config.RetryMax
	}
	if w.failures < 20 {
		w.failures++
	}
	c.wait(i, pause)
}
