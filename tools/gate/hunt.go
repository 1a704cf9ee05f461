package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
)

// hunt runs each test N times, one at a time, beside two loops that use all CPU time they get.
// It prints how often each test failed.
func hunt(ctx context.Context, args []string, out io.Writer) error {
	s, err := parse("hunt", args)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(s.name)
	if err != nil || n < 1 {
		return fmt.Errorf("%q: how often each test runs is a number of at least 1", s.name)
	}
	busy, stop := context.WithCancel(ctx)
	defer stop()
	for range 2 {
		go func() {
			for busy.Err() == nil {
			}
		}()
	}
	t := tests{ctx: ctx, out: out, flags: append(s.flags, "-count", s.name, "-parallel", "1", "-timeout", "0")}
	r, err := t.goTest(s.tests, s.packages)
	if err != nil {
		return err
	}
	failed := map[string]int{}
	for name := range r.passes {
		failed[name] = 0
	}
	for path, p := range r.packages {
		for name, times := range p.tests {
			failed[path+" "+name] = times
		}
	}
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		fmt.Fprintf(out, "gate: %s failed %d of %d\n", name, failed[name], failed[name]+r.passes[name])
	}
	if list := r.failures(); len(list) > 0 {
		return fmt.Errorf("%d tests failed at least once", len(list))
	}
	return nil
}
