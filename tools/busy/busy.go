// Package busy waits for kernel work that sends no notification.
package busy

import (
	"context"
	"errors"
	"time"
)

// Retry repeats an operation every 5 ms while it fails with the error busy, until ctx
// ends. It returns the last result.
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
