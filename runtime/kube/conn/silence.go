package conn

import (
	"context"
	"errors"
	"time"
)

// ErrSilent is the cause of a context that a Silence cancelled.
var ErrSilent = errors.New("nothing was heard for too long")

// Silence is a watchdog. It cancels a context unless the server sends something in time.
type Silence struct {
	timer *time.Timer
	end   context.CancelCauseFunc
}

// Listen returns a context that is cancelled with the cause [ErrSilent] unless Heard, Hold or End
// is called within the given time. The caller calls End.
func Listen(ctx context.Context, within time.Duration) (context.Context, *Silence) {
	ctx, end := context.WithCancelCause(ctx)
	return ctx, &Silence{time.AfterFunc(within, func() { end(ErrSilent) }), end}
}

// Heard starts the wait again, with a new limit.
func (s *Silence) Heard(within time.Duration) { s.timer.Reset(within) }

// Hold stops the wait until Heard, because the delay is not the server's.
func (s *Silence) Hold() { s.timer.Stop() }

// End stops the wait and cancels the context.
func (s *Silence) End() {
	s.timer.Stop()
	s.end(nil)
}
