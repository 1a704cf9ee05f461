package cascade

import (
	"container/heap"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
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

// Answered takes what a live read returned that an action with this ID asked for
// (Verify, Read). asOf is when the read was sent: what it returned was true then or
// later.
//
// Absent is only a Status NotFound whose details name that very object. Anything else
// that failed is Unknown. An answer that is late, or that nobody waits for, is ignored.
func (c *Collector) Answered(now, asOf time.Time, id uint64, a gc.Answer) {
	i, w := c.take(now, id)
	if i == 0 {
		c.witnessed(asOf, id, a)
		return
	}
	switch {
	case c.distrusted(i, w, asOf, &a):
	case a.State == gc.Exists && a.Object.UID == c.uidOf(i):
		c.exists(i, w, asOf, a.Object)
	case a.State == gc.Exists && a.Object.UID != "", a.State == gc.Absent:
		c.vanish(i, proven)
	case a.State == gc.TooBusy:
		c.wait(i, c.config.RetryMin)
	default:
		c.retry(i, w, c.config.RetryMin)
	}
}

func (c *Collector) exists(i index, w *work, asOf time.Time, o gc.Object) {
	if w.overtaken && c.at(i).flags&observed == 0 {
		// It may have gone after it was read and before it was listed, which no watch
		// tells then.
		c.wake(i)
		return
	}
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
	waits := n.flags
	c.observe(o, false)
	w.unchanged = w.conflict
	if k := &c.kinds.all[n.kind]; k.phase != synced && k.phase != listing {
		// No watch will report its end: ask again, in a while.
		w.recheck = c.now.Add(c.config.Recheck)
		heap.Push(&c.alarms, alarm{w.recheck, i})
	}
	if w.conflicts > 0 {
		c.wakeFirst(i) // nothing but the request is to come after the read
	} else {
		c.wake(i)
	}
	if n.flags&observed == 0 || waits&(terminating|doubted) != 0 || n.flags&terminating != 0 {
		c.wakeDependents(i)
	}
}

// Patched takes the object that the response to a successful patch showed, before
// Finished. An answer that nobody waits for any more is ignored: its object was seen to
// go, or missing from a list, meanwhile.
func (c *Collector) Patched(now time.Time, id uint64, o gc.Object) {
	c.now = now
	if i, ok := c.inFlight[id]; ok && o.UID == c.uidOf(i) && !(c.quarantined(i) && c.streamed(i)) {
		c.observe(o, false)
	}
}

// Finished takes how an action with this ID went, after [Collector.Patched].
//
// Gone is only a Status NotFound whose details name that very object; anything else that
// failed is Failed. Done of a Record says that the UID is stored where the next process
// finds it. Record and Withdraw must be carried out in the order in which they were given
// out. An action whose effect is not seen within Config.Settle is followed by a live
// read.
func (c *Collector) Finished(now time.Time, id uint64, r gc.Result) {
	i, w := c.take(now, id)
	if i == 0 {
		return
	}
	w.last = r
	if w.verb == gc.Record && r != gc.Withheld {
		c.recorded(i, r)
		return
	}
	switch r {
	case gc.Done:
		w.failures, w.conflicts, w.conflict, w.unchanged = 0, 0, false, false
		if !w.seen || w.verb == gc.Delete && c.at(i).flags&terminating == 0 {
			// The watch will report it; until then the same must not be done twice.
			w.sent = true
			c.wait(i, c.config.Settle)
		}
	case gc.Conflict:
		c.conflicted(i, w)
	case gc.Gone:
		if c.quarantined(i) {
			c.retry(i, w, c.config.RetryMin) // its watch reports whether it is
			break
		}
		c.vanish(i, proven)
		return
	case gc.TooMany:
		c.wait(i, c.config.RetryMin) // it is no failure of the object's: no longer each time
	case gc.Deferred: // see Slow and Hold
	case gc.Withheld:
		w.withheld, w.withheldFor = w.verb, w.reason
	case gc.Forbidden:
		c.retry(i, w, max(c.config.RetryMin, c.config.RetryMax/16))
	default:
		c.retry(i, w, c.config.RetryMin)
	}
	c.wake(i)
}

// conflicted has an object read again, and after some conflicts in a row only after
// pauses that double: it is never deleted in a version that nobody has looked at. One that
// changes all the time is asked for some times after each pause, for every single time is
// a matter of luck. One that does not change conflicts for another reason.
func (c *Collector) conflicted(i index, w *work) {
	w.conflict, w.unchanged, w.reread = true, false, true
	if w.conflicts < 255 {
		w.conflicts++
	}
	pauses := int(w.conflicts) - atOnce
	if w.moved {
		pauses = int(w.conflicts) / atOnce
	}
	if pauses > 0 && (!w.moved || w.conflicts%atOnce == 0) {
		c.wait(i, min(c.config.RetryMin<<min(pauses-1, 20), c.config.RetryMax))
	}
	if w.conflicts == restless {
		c.out = append(c.out, gc.Action{Verb: gc.Warn, Object: c.coordinates(i), Reason: ChangesTooOften})
	}
}

// recorded takes how it went to write an owner into the durable journal. Whoever writes
// it is not asked of the API server for each owner, so the pauses do not grow.
func (c *Collector) recorded(i index, r gc.Result) {
	if r == gc.Done {
		c.record(i)
	} else {
		c.wait(i, max(c.config.RetryMin, c.config.RetryMax/64))
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
