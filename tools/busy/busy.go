// Package busy waits for what the kernel does in its own time and tells nobody of.
package busy

import (
	"context"
	"errors"
	"time"
)

// Retry repeats an operation while it fails with one error, which the kernel
// gives no event to wait for, and returns the last result.
func Retry(ctx context.Context, busy error, op func() error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := op()
		if !errors.Is(err, busy) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
