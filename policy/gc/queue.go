package gc

import (
	"container/heap"
	"math"
	"time"
)

// Item is what a [Queue] keeps of an object. Embed it in what a collector keeps.
type Item struct {
	due      int64  // Unix nanoseconds: when the collector wants it
	after    int64  // the same: not before, because of how the last request went
	id       uint64 // of the action on its way; 0: none
	place    int32  // in the heap, from 1; 0: it is not there
	failures uint8  // in a row
	last     uint8  // how what was asked for last went, a Result, from 1; 0: nothing was
	flags    flags
}

type flags uint8

const (
	wanted    flags = 1 << iota // due counts
	withheld                    // the caller did not want to
	overtaken                   // it changed while an action was on its way
)

func (f flags) is(all flags) bool { return f&all == all }

func (f *flags) set(all flags, on bool) {
	if *f &^= all; on {
		*f |= all
	}
}

func (i *Item) queued() *Item { return i }

// Overtaken says whether the object changed after what is on its way was asked for.
func (i *Item) Overtaken() bool { return i.flags.is(overtaken) }

func (i *Item) at() int64 { return max(i.due, i.after) }

// Due is when the collector wants it; zero if never.
func (i *Item) Due() time.Time {
	if !i.flags.is(wanted) {
		return time.Time{}
	}
	return time.Unix(0, i.due).UTC()
}

// Queued is what embeds an [Item].
type Queued interface {
	comparable
	queued() *Item
}

// QueueConfig has the times of a [Queue]. Zero fields mean the defaults.
type QueueConfig struct {
	// Settle is how long the effect of a request that succeeded may take to be seen. The
	// same is asked for again if it was not. Default 30s.
	Settle time.Duration
	// RetryMin and RetryMax bound the pause after a failure, which doubles from one to
	// the other. Defaults 250ms, 5m.
	RetryMin, RetryMax time.Duration
}

// Queue holds objects, each with the moment at which something is to be done about it,
// and remembers what was asked for. It has the earliest first, and one timer's worth of
// work: [Queue.Next]. An object has at most one action on its way. It is not safe for
// concurrent use, and its zero value is ready.
type Queue[E Queued] struct {
	Config QueueConfig
	heap   entries[E]
	flying map[uint64]E
	lastID uint64
	now    time.Time // of the last input
	lane   lane
}

// lane is open for so many actions until it is filled again, while the caller wants
// fewer.
type lane struct {
	held  bool
	until time.Time // zero: it is not slowed
	pause time.Duration
	most  int
	open  int
}

// Len is how many objects wait for their moment.
func (q *Queue[E]) Len() int { return len(q.heap) }

// Schedule has something done about e at a moment, or never, if that is zero. What is on
// its way goes on.
func (q *Queue[E]) Schedule(e E, at time.Time) {
	i := e.queued()
	if i.flags.set(wanted, !at.IsZero()); !at.IsZero() {
		i.due = nanos(at)
	}
	q.put(e)
}

// earliest and latest are what fits into an Item: times of others may be anything.
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

// Changed says that the object was seen in another version: what was withheld, failed or
// had no effect may go another way now, and so may what is on its way, if it comes to that.
func (q *Queue[E]) Changed(e E) {
	i := e.queued()
	i.after, i.failures = 0, 0
	i.flags.set(withheld, false)
	i.flags.set(overtaken, i.id != 0)
	q.put(e)
}

// Wait has nothing done about e before a moment.
func (q *Queue[E]) Wait(e E, until time.Time) {
	e.queued().after = nanos(until)
	q.put(e)
}

// Drop forgets e. What is on its way has nobody to tell any more.
func (q *Queue[E]) Drop(e E) {
	i := e.queued()
	delete(q.flying, i.id)
	i.id = 0
	i.flags.set(wanted, false)
	q.put(e)
}

// Ready asks for actions, the earliest first, most at most. ask says what is to be done
// about an object whose moment has come; false: nothing, and then it has scheduled it
// anew, or it is not looked at again.
func (q *Queue[E]) Ready(now time.Time, most int, ask func(E) (Action, bool)) []Action {
	q.now = now
	var out []Action
	for len(out) < most && len(q.heap) > 0 && q.heap[0].queued().at() <= nanos(now) && q.pass() {
		e := q.heap[0]
		i := e.queued()
		i.flags.set(wanted|overtaken, false) // wanted unless ask says otherwise
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
		q.lane.open--
		q.put(e)
		out = append(out, a)
	}
	return out
}

// pass says whether the caller wants one more. A lane that was open for a whole pause
// without being used up is narrow no longer: the caller says so if it is, after all.
func (q *Queue[E]) pass() bool {
	l := &q.lane
	switch over := !l.until.After(q.now); {
	case l.held:
		return false
	case l.until.IsZero():
		return true
	case over && (l.open > 0 || q.now.Sub(l.until) >= l.pause):
		*l = lane{}
		return true
	case over:
		l.open, l.until = l.most, q.now.Add(l.pause)
	}
	return l.open > 0
}

// Finished takes how an action went, and gives back what it was about; false if nobody
// waits for it any more.
func (q *Queue[E]) Finished(now time.Time, id uint64, r Result) (e E, ok bool) {
	q.now = now
	if e, ok = q.flying[id]; !ok {
		return e, false
	}
	delete(q.flying, id)
	i := e.queued()
	i.id, i.last = 0, uint8(r)+1
	or := func(d, v time.Duration) time.Duration {
		if d <= 0 {
			return v
		}
		return d
	}
	pause, longest := or(q.Config.RetryMin, 250*time.Millisecond), or(q.Config.RetryMax, 5*time.Minute)
	switch r {
	case Done, Gone:
		// Its watch reports it. Until then the same must not be done twice.
		i.failures, pause = 0, or(q.Config.Settle, 30*time.Second)
	case Deferred:
		pause = 0 // Slow and Hold say when
	case TooMany: // no failure of the object's
	default:
		if i.Overtaken() { // that was about the object as it was
			pause = 0
			break
		}
		if r == Withheld {
			i.flags.set(withheld, true)
			pause = 0
			break
		}
		if r == Forbidden {
			pause = max(pause, longest/16)
		}
		pause = min(pause<<min(i.failures, 20), longest)
		i.failures = min(i.failures+1, 20)
	}
	i.after = nanos(now.Add(pause))
	q.put(e)
	return e, true
}

// Again has e looked at when it is due, because what follows on its last action is a part
// of the same.
func (q *Queue[E]) Again(e E) {
	e.queued().after = 0
	q.lane.open++
	q.put(e)
}

// Next is the earliest moment at which Ready has more to say; zero if there is none.
func (q *Queue[E]) Next() time.Time {
	if len(q.heap) == 0 || q.lane.held {
		return time.Time{}
	}
	next := time.Unix(0, q.heap[0].queued().at()).UTC()
	if q.lane.open <= 0 && q.lane.until.After(next) {
		return q.lane.until
	}
	return next
}

// Slow says that none is wanted before a moment, and from then on at most so many as
// often as that is from now; until fewer are due than that, or [Queue.Release].
func (q *Queue[E]) Slow(now, until time.Time, most int) {
	const leastPause = 10 * time.Millisecond
	l := &q.lane
	l.pause, l.most, l.open = max(until.Sub(now), leastPause), max(most, 1), 0
	l.until = now.Add(l.pause)
}

// Hold has nothing asked for while it is on.
func (q *Queue[E]) Hold(on bool) { q.lane.held = on }

// Release has asked for again what was withheld or slowed. The caller names all that it
// keeps: what is withheld is not in the queue.
func (q *Queue[E]) Release(all func(yield func(E) bool)) {
	q.lane = lane{held: q.lane.held}
	for e := range all {
		if i := e.queued(); i.flags.is(withheld) {
			i.flags.set(withheld, false)
			i.after = 0
			q.put(e)
		}
	}
}

// put e where it belongs.
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
