package conn

import (
	"context"
	"errors"
	"time"
)

// ErrSilent is why a context ended in which nothing was heard.
var ErrSilent = errors.New("nothing was heard for too long")

// Silence ends a context unless the other side is heard of in time.
type Silence struct {
	timer *time.Timer
	end   context.CancelCauseFunc
}

// Listen begins to wait, for so long at first. The caller calls End.
func Listen(ctx context.Context, within time.Duration) (context.Context, *Silence) {
	ctx, end := context.WithCancelCause(ctx)
	return ctx, &Silence{time.AfterFunc(within, func() { end(ErrSilent) }), end}
}

// Heard begins anew.
func (s *Silence) Heard(within time.Duration) { s.timer.Reset(within) }

// Hold stops the waiting until Heard: it is not the other side that takes its time.
func (s *Silence) Hold() { s.timer.Stop() }

// End ends the context, too.
func (s *Silence) End() {
	s.timer.Stop()
	s.end(nil)
}
