// Package wait has the pauses between attempts: a sleep that ends with its context, a
// jitter that keeps many callers from coming back at the same moment, and an exponential
// back-off.
package wait

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sleep returns true after d, or false once ctx ends.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Jitter returns a random duration from d/2 to d.
func Jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// Backoff is a pause that doubles from Min to Max with each attempt that fails.
type Backoff struct {
	Min, Max time.Duration
	last     time.Duration
}

// Next is the pause after one more failure.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, b.Min), b.Max)
	return b.last
}

// Reset begins with Min again.
func (b *Backoff) Reset() { b.last = 0 }

// First reports whether nothing has failed since the last Reset.
func (b *Backoff) First() bool { return b.last == 0 }
