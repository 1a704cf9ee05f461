package contender

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Main runs a benchmark until it ends or is interrupted, and ends the process if it fails.
func Main(name string, run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		stop()
		os.Exit(1)
	}
}

// Say how it goes, to people.
func Say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// Pause for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Until asks every so often whether something is so, for so long at most; what is the
// error then.
func Until(ctx context.Context, every, most time.Duration, what string, ask func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, most, errors.New(what))
	defer cancel()
	for {
		ok, err := ask(ctx)
		if ok || err != nil {
			return err
		}
		if err := Pause(ctx, every); err != nil {
			return err
		}
	}
}
