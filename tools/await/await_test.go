package await_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-agent/ebb/tools/await"
)

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		err := await.Until(t.Context(), "three", func(context.Context) error {
			if asked++; asked < 3 {
				return fmt.Errorf("%d", asked)
			}
			return nil
		})
		if err != nil || asked != 3 {
			t.Errorf("asked %d times: %v", asked, err)
		}
	})
}

// The error has the reason for the end of the wait, and the last answer that is no consequence of it.
func TestUntilLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tired, real := errors.New("tired"), errors.New("not yet")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, tired)
		defer cancel()
		begun := time.Now()
		err := await.Until(ctx, "ever", func(ctx context.Context) error {
			if time.Since(begun) < 30*time.Second {
				return real
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, tired) || !errors.Is(err, real) || errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "wait for ever: ") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}

type failing struct {
	*testing.T
	message string
}

func (f *failing) Fatal(args ...any) { f.message = fmt.Sprint(args...) }

func TestHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{T: t}
		begun := time.Now()
		await.Holds(f, time.Minute, "ever", func(context.Context) error { return errors.New("no") })
		if took := time.Since(begun); took != time.Minute || !strings.Contains(f.message, "wait for ever: ") || !strings.HasSuffix(f.message, "no") {
			t.Errorf("after %v: %q", took, f.message)
		}
	})
}
