package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// mostFlakes is how many failed tests of a run may get a second look.
const mostFlakes = 2

// secondLook runs each failed test twice more, alone, unless its package's failure is final.
// A test that passes both times is removed from r and returned as a flake. If the failures
// and the flakes of earlier stages are more than mostFlakes, nothing runs again.
func (t *tests) secondLook(r *results, earlier int) (flakes []string) {
	total := earlier + len(r.failures())
	switch {
	case len(r.failures()) == 0 || r.broken != "":
		return nil
	case total > mostFlakes:
		fmt.Fprintf(t.out, "gate: no second look: %d failed in this run, and %d may\n", total, mostFlakes)
		return nil
	}
	for _, path := range slices.Sorted(maps.Keys(r.packages)) {
		p := r.packages[path]
		if p.final != "" {
			fmt.Fprintf(t.out, "gate: no second look at %s: %s\n", path, p.final)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(p.tests)) {
			fmt.Fprintf(t.out, "gate: a second look at %s %s\n", path, name)
			alone := *t
			alone.all = true
			again, err := alone.goTest([]string{"-count=2", "-run", "^" + regexp.QuoteMeta(name) + "$"}, []string{path})
			if err != nil {
				fmt.Fprintf(t.out, "gate: %s: %v\n", name, err)
				continue
			}
			if len(again.failures()) > 0 || again.passed != 2 {
				fmt.Fprintf(t.out, "gate: %s passed %d times of 2\n", name, again.passed)
				continue
			}
			delete(p.tests, name)
			r.passed++
			flakes = append(flakes, path+" "+name)
			fmt.Fprintf(t.out, "gate: FLAKE %s %s: mend it, or enter it in tools/gate/flakes.tsv\n", path, name)
		}
		if len(p.tests) == 0 {
			delete(r.packages, path)
		}
	}
	return flakes
}
