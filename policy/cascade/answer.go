package cascade

import (
	"container/heap"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// take removes an action from those in flight and returns its node; 0 if the action is not
// in flight any more.
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

// Answered handles the result of a live read (Verify, Read), by the ID of its action. asOf
// is when the read was sent: the result was true then or later.
//
// Absent is only a Status NotFound whose details name that very object. Any other failure
// is Unknown. A late answer is ignored: its action is not in flight any more.
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
		// The object may have been deleted between the read and the list. No watch reports
		// that.
		c.wake(i)
		return
	}
	w.wanted, w.reread, w.readAt = false, false, asOf
	if !w.conflict {
		w.failures = 0
	}
	n := c.at(i)
	k := &c.kinds.all[n.kind]
	// The object has the coordinates of the request, whatever the answer contains.
	o.APIVersion, o.Kind, o.Name, o.Namespace = k.apiVersion, k.kind, n.name, c.namespaces.all[n.namespace].text
	if k.phase == unwatched {
		o.Owners = nil // only an owner here: its watched version has the references
	}
	waits := n.flags
	c.observe(o, false)
	w.unchanged = w.conflict
	if k := &c.kinds.all[n.kind]; k.phase != synced && k.phase != listing {
		// No watch reports its deletion: read it again later.
		w.recheck = c.now.Add(c.config.Recheck)
		heap.Push(&c.alarms, alarm{w.recheck, i})
	}
	if w.conflicts > 0 {
		c.wakeFirst(i) // the request must follow the read directly
	} else {
		c.wake(i)
	}
	if n.flags&observed == 0 || waits&(terminating|doubted) != 0 || n.flags&terminating != 0 {
		c.wakeDependents(i)
	}
}

// Patched handles the object in the response to a successful patch. Call it before
// Finished. The response is ignored if the action is not in flight any more: its object was
// deleted, or missing from a list, in between.
func (c *Collector) Patched(now time.Time, id uint64, o gc.Object) {
	c.now = now
	if i, ok := c.inFlight[id]; ok && o.UID == c.uidOf(i) && !(c.quarantined(i) && c.streamed(i)) {
		c.observe(o, false)
	}
}

// Finished handles the result of an action, by its ID, after [Collector.Patched].
//
// Gone is only a Status NotFound whose details name that very object. Any failure without a
// result of its own is Failed. Done of a Record means that the UID is stored where the next
// process finds it. Record and Withdraw must be carried out in the order in which Ready
// returned them. If the effect of an action is not seen within Config.Settle, a live read
// follows.
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
			// Until the watch reports the effect, the action must not be repeated.
			w.sent = true
			c.wait(i, c.config.Settle)
		}
	case gc.Conflict:
		c.conflicted(i, w)
	case gc.Gone:
		if c.quarantined(i) {
			c.retry(i, w, c.config.RetryMin) // not trusted: the watch reports a deletion
			break
		}
		c.vanish(i, proven)
		return
	case gc.TooMany:
		c.wait(i, c.config.RetryMin) // not the object's failure: the pause does not grow
	case gc.Deferred: // see Slow and Hold
	case gc.Withheld:
		if !w.released {
			w.withheld, w.withheldFor = w.verb, w.reason
		}
	case gc.Forbidden:
		c.retry(i, w, max(c.config.RetryMin, c.config.RetryMax/16))
	default:
		c.retry(i, w, c.config.RetryMin)
	}
	c.wake(i)
}

// conflicted handles a conflict. It requests a live read, because an object is never
// deleted in a version that was not evaluated. After some conflicts in a row, pauses come
// first, and double. An object that changes all the time gets several requests after each
// pause, because each one succeeds only by luck. An object that does not change conflicts
// for another reason. It gets one request after each pause.
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

// recorded handles the result of writing an owner to the durable journal. The journal does
// not send one request per owner, so the pause does not grow.
func (c *Collector) recorded(i index, r gc.Result) {
	if r == gc.Done {
		c.record(i)
	} else {
		c.wait(i, max(c.config.RetryMin, c.config.RetryMax/64))
	}
	c.wake(i)
}

// retry postpones a node. The pause starts at from and doubles with each failure in a row,
// up to Config.RetryMax.
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
