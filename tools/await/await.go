// Package await waits, with a bound, for what tells nobody when it changes.
package await

import (
	"context"
	"fmt"
	"time"
)

// Between two questions there is a pause as long as the last one took, within these bounds:
// who waits leaves the machine to those it waits for.
const shortest, longest = 10 * time.Millisecond, 200 * time.Millisecond

// Until asks again until the answer is no error. If ctx ends before, the error has the last answer.
func Until(ctx context.Context, what string, ask func(context.Context) error) error {
	var last error
	for {
		begun := time.Now()
		err := ask(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err // what the end of the wait breaks off says nothing
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; last answer: %w", what, context.Cause(ctx), last)
		case <-time.After(min(max(shortest, time.Since(begun)), longest)):
		}
	}
}

// T is what Holds needs of a test.
type T interface {
	Helper()
	Context() context.Context
	Fatal(...any)
}

// Holds fails the test unless the answer is no error within limit. It may be called while
// the test cleans up.
func Holds(t T, limit time.Duration, what string, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	defer cancel()
	if err := Until(ctx, what, ask); err != nil {
		t.Fatal(err)
	}
}
