package gc

import (
	"container/heap"
	"math"
	"time"
)

// Item is the state that a [Queue] keeps in an object. A collector embeds it in its own
// type.
type Item struct {
	due      int64  // Unix nanoseconds: when the collector wants an action
	after    int64  // Unix nanoseconds: no action before, because of the last result
	id       uint64 // of the action in flight; 0: none
	place    int32  // in the heap, from 1; 0: it is not there
	failures uint8  // in a row
	last     uint8  // Result of the last action, plus 1; 0: no action yet
	flags    flags
}

type flags uint8

const (
	wanted    flags = 1 << iota // an action is due at due
	withheld                    // the caller withheld the action
	overtaken                   // it changed while an action was in flight
	released                    // Release was called while an action was in flight
)

func (f flags) is(all flags) bool { return f&all == all }

func (f *flags) set(all flags, on bool) {
	if *f &^= all; on {
		*f |= all
	}
}

func (i *Item) queued() *Item { return i }

// Overtaken reports whether the object changed after the action in flight was emitted.
func (i *Item) Overtaken() bool { return i.flags.is(overtaken) }

func (i *Item) at() int64 { return max(i.due, i.after) }

// Due returns when the collector wants an action; zero if never.
func (i *Item) Due() time.Time {
	if !i.flags.is(wanted) {
		return time.Time{}
	}
	return time.Unix(0, i.due).UTC()
}

// Queued is a type that embeds an [Item].
type Queued interface {
	comparable
	queued() *Item
}

const (
	// settle is how long the effect of a request that succeeded may take to be seen. Without
	// the effect, the same action is emitted again.
	settle = 30 * time.Second
	// retryMin and retryMax bound the pause after a failure, which doubles from one to the
	// other.
	retryMin, retryMax = 250 * time.Millisecond, 5 * time.Minute
)

// Queue holds objects, each with the time at which an action on it is due, and remembers
// the last action. The earliest comes first, and one timer is enough for all: [Queue.Next].
// An object has at most one action in flight. A Queue is not safe for concurrent use, and
// its zero value is ready.
type Queue[E Queued] struct {
	heap     entries[E]
	flying   map[uint64]E
	lastID   uint64
	now      time.Time // of the last input
	throttle throttle
}

// throttle limits the actions while the caller wants fewer: open actions may be emitted until
// it is refilled.
type throttle struct {
	held  bool
	until time.Time // of the next refill; zero: no limit
	pause time.Duration
	most  int
	open  int
}

// Schedule sets when an action on e is due; zero: never. It does not stop an action in
// flight.
func (q *Queue[E]) Schedule(e E, at time.Time) {
	i := e.queued()
	if i.flags.set(wanted, !at.IsZero()); !at.IsZero() {
		i.due = nanos(at)
	}
	q.put(e)
}

// earliest and latest are the limits of the times in an Item: times in objects may be any.
var earliest, latest = time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64)

// nanos returns Unix nanoseconds, within what fits.
func nanos(t time.Time) int64 {
	switch {
	case t.After(latest):
		return math.MaxInt64
	case t.Before(earliest):
		return math.MinInt64
	}
	return t.UnixNano()
}

// Changed notes that the object was seen in another version. An action that was withheld,
// failed or had no effect may have another result now. The same holds for an action in
// flight that fails.
func (q *Queue[E]) Changed(e E) {
	i := e.queued()
	i.after, i.failures = 0, 0
	i.flags.set(withheld, false)
	i.flags.set(overtaken, i.id != 0)
	q.put(e)
}

// Wait blocks actions on e until a time.
func (q *Queue[E]) Wait(e E, until time.Time) {
	e.queued().after = nanos(until)
	q.put(e)
}

// Drop forgets e. The result of an action in flight is ignored.
func (q *Queue[E]) Drop(e E) {
	i := e.queued()
	delete(q.flying, i.id)
	i.id = 0
	i.flags.set(wanted, false)
	q.put(e)
}

// Ready returns up to most actions, the earliest first. ask returns the action on an object
// whose time has come. If ask returns false, there is no action: ask has scheduled the
// object again, or it leaves the queue.
func (q *Queue[E]) Ready(now time.Time, most int, ask func(E) (Action, bool)) []Action {
	q.now = now
	var out []Action
	for len(out) < most && len(q.heap) > 0 && q.heap[0].queued().at() <= nanos(now) && q.pass() {
		e := q.heap[0]
		i := e.queued()
		i.flags.set(wanted|overtaken|released, false) // wanted unless ask decides otherwise
		a, ok := ask(e)
		if !ok {
			q.put(e)
			continue
		}
		q.lastID++
		a.ID, i.id = q.lastID, q.lastID
		i.flags.set(wanted, true)
		i.last = uint8(Failed) + 1
		if q.flying == nil {
			q.flying = make(map[uint64]E)
		}
		q.flying[i.id] = e
		q.throttle.open--
		q.put(e)
		out = append(out, a)
	}
	return out
}

// pass reports whether the caller wants one more action. A throttle that was open for a whole
// pause without being used up loses its limit: the caller calls Slow again if it still
// wants one.
func (q *Queue[E]) pass() bool {
	l := &q.throttle
	switch over := !l.until.After(q.now); {
	case l.held:
		return false
	case l.until.IsZero():
		return true
	case over && (l.open > 0 || q.now.Sub(l.until) >= l.pause):
		*l = throttle{}
		return true
	case over:
		l.open, l.until = l.most, q.now.Add(l.pause)
	}
	return l.open > 0
}

// Finished handles the result of an action, and returns the object that it was about; false
// if the action is not in flight any more.
func (q *Queue[E]) Finished(now time.Time, id uint64, r Result) (e E, ok bool) {
	q.now = now
	if e, ok = q.flying[id]; !ok {
		return e, false
	}
	delete(q.flying, id)
	i := e.queued()
	i.id, i.last = 0, uint8(r)+1
	pause := retryMin
	switch r {
	case Done, Gone:
		// The watch reports the effect. Until then the action must not be repeated.
		i.failures, pause = 0, settle
	case Deferred:
		pause = 0 // Slow and Hold limit the next one
	case TooMany: // not a failure of this object
	default:
		if i.Overtaken() { // the result is about the earlier version
			pause = 0
			break
		}
		if r == Withheld {
			i.flags.set(withheld, !i.flags.is(released))
			pause = 0
			break
		}
		if r == Forbidden {
			pause = max(pause, retryMax/16)
		}
		pause = min(pause<<min(i.failures, 20), retryMax)
		i.failures = min(i.failures+1, 20)
	}
	i.after = nanos(now.Add(pause))
	q.put(e)
	return e, true
}

// Again removes the pause of e, and gives back its share of the throttle: the action that follows
// is a part of the last one.
func (q *Queue[E]) Again(e E) {
	e.queued().after = 0
	q.throttle.open++
	q.put(e)
}

// Next returns the earliest time at which Ready has more; zero if there is none.
func (q *Queue[E]) Next() time.Time {
	if len(q.heap) == 0 || q.throttle.held || q.heap[0].queued().after == math.MaxInt64 {
		return time.Time{}
	}
	next := time.Unix(0, q.heap[0].queued().at()).UTC()
	if q.throttle.open <= 0 && q.throttle.until.After(next) {
		return q.throttle.until
	}
	return next
}

// Slow limits actions: none before until, and then up to most per pause. The pause is the
// time from now to until. The limit ends once fewer actions are due than that, or with
// [Queue.Release].
func (q *Queue[E]) Slow(now, until time.Time, most int) {
	const leastPause = 10 * time.Millisecond
	l := &q.throttle
	l.pause, l.most, l.open = max(until.Sub(now), leastPause), max(most, 1), 0
	l.until = now.Add(l.pause)
}

// Hold stops all actions while on is true.
func (q *Queue[E]) Hold(on bool) { q.throttle.held = on }

// Release makes everything due again that was withheld or slowed. A Withheld that comes later for
// an action in flight may be older, so that action is due again, too. all yields every object that
// the caller keeps: withheld objects are not in the queue.
func (q *Queue[E]) Release(all func(yield func(E) bool)) {
	q.throttle = throttle{held: q.throttle.held}
	for e := range all {
		i := e.queued()
		i.flags.set(released, i.id != 0)
		if i.flags.is(withheld) {
			i.flags.set(withheld, false)
			i.after = 0
			q.put(e)
		}
	}
}

// put moves e to its place in the heap, or removes it.
func (q *Queue[E]) put(e E) {
	i := e.queued()
	switch in := i.flags.is(wanted) && i.id == 0 && !i.flags.is(withheld); {
	case in && i.place == 0:
		heap.Push(&q.heap, e)
	case in:
		heap.Fix(&q.heap, int(i.place-1))
	case i.place != 0:
		heap.Remove(&q.heap, int(i.place-1))
	}
}

type entries[E Queued] []E

func (h entries[E]) Len() int           { return len(h) }
func (h entries[E]) Less(i, j int) bool { return h[i].queued().at() < h[j].queued().at() }
func (h entries[E]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].queued().place, h[j].queued().place = int32(i+1), int32(j+1)
}

func (h *entries[E]) Push(x any) {
	e := x.(E)
	*h = append(*h, e)
	e.queued().place = int32(len(*h))
}

func (h *entries[E]) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	var none E
	(*h)[last], *h = none, (*h)[:last]
	e.queued().place = 0
	return e
}
