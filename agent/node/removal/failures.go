package removal

import (
	"cmp"
	"maps"
	"time"
)

const (
	failureFirst = 30 * time.Second
	failureMost  = time.Hour
)

// Failures is the book of what failed, by its key. Something that failed is left alone
// for First (30 s if that is 0), then each time for twice as long, up to Most (an hour).
type Failures[K comparable] struct {
	First, Most time.Duration

	by map[K]failure
}

type failure struct {
	times int
	until time.Time
}

// Add notes one more failure: how many there are now, and how long the thing is left alone.
func (f *Failures[K]) Add(key K, now time.Time) (times int, wait time.Duration) {
	if f.by == nil {
		f.by = make(map[K]failure)
	}
	times = f.by[key].times + 1
	wait = min(cmp.Or(f.First, failureFirst)<<min(times-1, 10), f.most())
	f.by[key] = failure{times: times, until: now.Add(wait)}
	return times, wait
}

func (f *Failures[K]) most() time.Duration { return cmp.Or(f.Most, failureMost) }

// Until is when it may be tried again; the zero time if nothing failed.
func (f *Failures[K]) Until(key K) time.Time { return f.by[key].until }

// Times is how often it has failed.
func (f *Failures[K]) Times(key K) int { return f.by[key].times }

// Forget is for what succeeded, or is there no more.
func (f *Failures[K]) Forget(key K) { delete(f.by, key) }

// Len is how many things have failed.
func (f *Failures[K]) Len() int { return len(f.by) }

// Clear has everything tried again at once.
func (f *Failures[K]) Clear() { clear(f.by) }

// Keep forgets what is not there any more.
func (f *Failures[K]) Keep(there func(key K) bool) {
	maps.DeleteFunc(f.by, func(key K, _ failure) bool { return !there(key) })
}

// ClockSet forgets waits that are longer than any: the clock that they were computed by
// was set back.
func (f *Failures[K]) ClockSet(now time.Time) {
	maps.DeleteFunc(f.by, func(_ K, one failure) bool { return one.until.Sub(now) > f.most() })
}
