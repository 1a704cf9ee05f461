package events

import (
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/runtime/kube"
)

const (
	spacing      = time.Minute // between two Events of one reason
	window       = time.Hour   // over which the limits below count
	maxPosts     = 20
	maxOfReason  = 10
	maxWaiting   = 32
	maxWait      = time.Hour // a fact that did not occur for so long is dropped as out of date
	seriesExpiry = time.Hour // how long an API server keeps an Event by default (--event-ttl)
)

// queue holds the facts to post and the recent posts, and decides when each fact is posted. The
// zero value is ready. Its callers pass the time in.
type queue struct {
	waiting []waiting // in order of their first occurrence
	posts   []posted  // of the last window, in order
	series  map[key]series
}

type key struct {
	reason  Reason
	subject string
}

// waiting are the facts with one key that were not posted yet.
type waiting struct {
	key
	message     string // the latest
	times       int
	first, last time.Time
}

type posted struct {
	reason Reason
	at     time.Time
}

// series is an Event that the API server has.
type series struct {
	name        string
	times       int
	first, last time.Time
}

// add queues a fact. It returns how many facts it dropped: those that expired, or made room.
func (q *queue) add(f Fact, now time.Time) (dropped int) {
	dropped = q.expire(now)
	k := key{f.Reason, f.Subject}
	if n := slices.IndexFunc(q.waiting, func(w waiting) bool { return w.key == k }); n >= 0 {
		w := &q.waiting[n]
		w.message, w.times, w.last = f.Message, w.times+1, now
		return dropped
	}
	if len(q.waiting) == maxWaiting {
		n := q.victim()
		dropped += q.waiting[n].times
		q.waiting = slices.Delete(q.waiting, n, n+1)
	}
	q.waiting = append(q.waiting, waiting{key: k, message: f.Message, times: 1, first: now, last: now})
	return dropped
}

// victim returns the index of the oldest waiting entry of the reason that has the most.
func (q *queue) victim() (index int) {
	count := make(map[Reason]int)
	for _, w := range q.waiting {
		count[w.reason]++
	}
	for n, w := range q.waiting {
		if count[w.reason] > count[q.waiting[index].reason] {
			index = n
		}
	}
	return index
}

// expire drops facts, posts and series that are too old. It returns how many facts it dropped.
func (q *queue) expire(now time.Time) (dropped int) {
	q.waiting = slices.DeleteFunc(q.waiting, func(w waiting) bool {
		old := now.Sub(w.last) >= maxWait
		if old {
			dropped += w.times
		}
		return old
	})
	q.posts = slices.DeleteFunc(q.posts, func(p posted) bool { return now.Sub(p.at) >= window })
	for k, s := range q.series {
		if now.Sub(s.last) >= seriesExpiry {
			delete(q.series, k)
		}
	}
	return dropped
}

// next returns when the next fact may be posted; ok is false if none waits.
func (q *queue) next() (at time.Time, ok bool) {
	for _, w := range q.waiting {
		if may := q.allowed(w.reason); !ok || may.Before(at) {
			at, ok = may, true
		}
	}
	return at, ok
}

// allowed returns when the limits allow a post of a reason; the zero time if no limit applies.
func (q *queue) allowed(r Reason) (at time.Time) {
	var all, own []time.Time
	for _, p := range q.posts {
		all = append(all, p.at)
		if p.reason == r {
			own = append(own, p.at)
		}
	}
	if n := len(own); n > 0 {
		at = own[n-1].Add(spacing)
	}
	return clock.Latest(at, roomAt(all, maxPosts), roomAt(own, maxOfReason))
}

// roomAt returns when fewer than most posts are left in the window; the zero time if that is so
// already.
func roomAt(posts []time.Time, most int) time.Time {
	if len(posts) < most {
		return time.Time{}
	}
	return posts[len(posts)-most].Add(window)
}

// take removes one fact that may be posted now and counts it as posted. Of several, it takes one of
// the reason whose latest post is oldest. ok is false if none may be posted.
func (q *queue) take(now time.Time) (w waiting, ok bool) {
	index, longest := -1, time.Time{}
	for n, w := range q.waiting {
		if last := q.lastOf(w.reason); !q.allowed(w.reason).After(now) && (index < 0 || last.Before(longest)) {
			index, longest = n, last
		}
	}
	if index < 0 {
		return waiting{}, false
	}
	w = q.waiting[index]
	q.waiting = slices.Delete(q.waiting, index, index+1)
	q.posts = append(q.posts, posted{w.reason, now})
	return w, true
}

// lastOf returns when a reason was last posted; the zero time if not in this window.
func (q *queue) lastOf(r Reason) (at time.Time) {
	for _, p := range q.posts {
		if p.reason == r {
			at = p.at
		}
	}
	return at
}

// event returns the Event for a fact: an update of its series, or the first one.
func (q *queue) event(w waiting) kube.NodeEvent {
	s, again := q.series[w.key]
	if !again {
		s = series{name: "ebb-agent." + strings.ToLower(rand.Text()), first: w.first}
	}
	return kube.NodeEvent{
		Name: s.name, Again: again, Warning: w.reason.warns(), Reason: string(w.reason), Message: w.message,
		Count: s.times + w.times, First: s.first, Last: w.last,
	}
}

// sent keeps the series of a posted Event.
func (q *queue) sent(w waiting, e kube.NodeEvent, now time.Time) {
	if q.series == nil {
		q.series = make(map[key]series)
	}
	q.series[w.key] = series{name: e.Name, times: e.Count, first: e.First, last: now}
}
