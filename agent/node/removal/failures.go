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

// Failures records failures by key. A key that failed is left alone for First (30 s if that is 0). Each
// further failure doubles that time, up to Most (an hour if that is 0).
type Failures[K comparable] struct {
	First, Most time.Duration

	by map[K]failure
}

type failure struct {
	times int
	until time.Time
}

// Add records one more failure. It returns how many there are now, and for how long the key is left
// alone.
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

// Until returns when a key may be tried again; the zero time if it has not failed.
func (f *Failures[K]) Until(key K) time.Time { return f.by[key].until }

// Times returns how often a key has failed.
func (f *Failures[K]) Times(key K) int { return f.by[key].times }

// Forget drops a key that succeeded or no longer exists.
func (f *Failures[K]) Forget(key K) { delete(f.by, key) }

// Len returns how many keys have failed.
func (f *Failures[K]) Len() int { return len(f.by) }

// Clear drops all failures, so that everything may be tried again at once.
func (f *Failures[K]) Clear() { clear(f.by) }

// Keep drops the keys that no longer exist.
func (f *Failures[K]) Keep(there func(key K) bool) {
	maps.DeleteFunc(f.by, func(key K, _ failure) bool { return !there(key) })
}

// ClockSet drops failures whose wait is longer than Most: the clock by which it was computed has been
// set back.
func (f *Failures[K]) ClockSet(now time.Time) {
	maps.DeleteFunc(f.by, func(_ K, one failure) bool { return one.until.Sub(now) > f.most() })
}
