// Package await polls, with a bound, for conditions that send no notification.
package await

import (
	"context"
	"fmt"
	"time"
)

// Between two attempts Until pauses as long as the last one took, within these bounds. This leaves
// the machine to the processes that it waits for.
const shortest, longest = 10 * time.Millisecond, 200 * time.Millisecond

// Until calls ask until it returns nil. If ctx ends first, the error includes the last error of
// ask.
func Until(ctx context.Context, what string, ask func(context.Context) error) error {
	var last error
	for {
		begun := time.Now()
		err := ask(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err // an attempt that ctx interrupted shows nothing
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; last answer: %w", what, context.Cause(ctx), last)
		case <-time.After(min(max(shortest, time.Since(begun)), longest)):
		}
	}
}

// T is the part of testing.T that Holds needs.
type T interface {
	Helper()
	Context() context.Context
	Fatal(...any)
}

// Holds fails the test unless ask returns nil within limit. It may be called from a cleanup
// function.
func Holds(t T, limit time.Duration, what string, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	defer cancel()
	if err := Until(ctx, what, ask); err != nil {
		t.Fatal(err)
	}
}
