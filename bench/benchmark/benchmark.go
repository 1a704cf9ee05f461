// Package benchmark has what benchmarks and soaks share: starting, stopping, waiting and progress
// output.
package benchmark

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Main runs a benchmark until it ends or is interrupted, and ends the process if it fails.
func Main(name string, run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// MainOrRender parses the flags and calls Main. With -render it only writes the report again, from
// the figures of a former run.
func MainOrRender(name string, render func() error, run func(context.Context) error) {
	again := flag.Bool("render", false, "only write RESULTS.md again, from the figures that are written")
	flag.Parse()
	Main(name, func(ctx context.Context) error {
		if *again {
			return render()
		}
		return run(ctx)
	})
}

// Part is a part of a benchmark that can be measured by itself.
type Part[F any] struct {
	Name    string
	Measure F
}

// Only returns the parts named in names, separated by commas, or all parts for "".
func Only[F any](parts []Part[F], names string) (wanted []Part[F], err error) {
	if names == "" {
		return parts, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(parts, func(p Part[F]) bool { return p.Name == name })
		if i < 0 {
			var all []string
			for _, p := range parts {
				all = append(all, p.Name)
			}
			return nil, fmt.Errorf("-only %s: want some of %s", name, strings.Join(all, ", "))
		}
		wanted = append(wanted, parts[i])
	}
	return wanted, nil
}

// Say prints a progress line with the time to standard error.
func Say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// Pause waits for d. If ctx ends first, it returns the cause.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Until calls ask at intervals of every until it returns true or an error. After most, Until
// returns an error with the text what.
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

// Copy copies a file, and replaces the content of one that exists.
func Copy(to, from string, mode os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
