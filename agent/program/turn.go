package program

import (
	"sync/atomic"
	"time"
)

// Turn asks for a turn at something that can be busy, so that /healthz can tell for how long, without waiting
// for it. The zero value is ready.
type Turn struct{ asked atomic.Int64 } // when, in ns; 0: every turn that was asked for has come

// Waits calls take in a goroutine of its own, unless an earlier call has not returned yet. It returns how long
// that one has waited. take returns when it has had its turn. now is of any clock that never shows 0.
func (t *Turn) Waits(now time.Duration, take func()) time.Duration {
	if t.asked.CompareAndSwap(0, int64(now)) {
		go func() {
			take()
			t.asked.Store(0)
		}()
		return 0
	}
	if asked := t.asked.Load(); asked != 0 {
		return now - time.Duration(asked)
	}
	return 0
}
