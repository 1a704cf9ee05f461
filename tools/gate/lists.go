package main

import (
	_ "embed"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
)

// skipsList has a line for each test that may skip itself: a pattern (path.Match) of
// PACKAGE.TEST below the module, and why.
//
//go:embed skips.txt
var skipsList string

// flakesList has a line for each time that a flake was seen: the date, the commit, PACKAGE.TEST
// below the module, and the cause.
//
//go:embed flakes.tsv
var flakesList string

const ebb = "github.com/ebb-agent/ebb/"

// lines returns the lines of a list, without comments.
func lines(list string) (all []string) {
	for line := range strings.Lines(list) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			all = append(all, line)
		}
	}
	return all
}

// unlisted returns a message for each skipped test that the list does not allow. A test is a
// package path, a space and a name.
func unlisted(skipped []string, list string) (names []string) {
	for _, name := range skipped {
		name = strings.Replace(strings.TrimPrefix(name, ebb), " ", ".", 1)
		may := false
		for _, line := range lines(list) {
			pattern, _, _ := strings.Cut(line, " ")
			if ok, err := path.Match(pattern, name); ok && err == nil {
				may = true
			}
		}
		if !may {
			names = append(names, name+" was skipped, and tools/gate/skips.txt does not have it")
		}
	}
	return names
}

// A test that was a flake tooMany times within a fortnight must be fixed before the gate
// passes.
const (
	tooMany   = 3
	fortnight = 14 * 24 * time.Hour
)

func checkFlakes(list string, now time.Time) error {
	var errs []error
	seen := map[string]int{}
	for _, line := range lines(list) {
		fields := strings.Split(line, "\t")
		if len(fields) != 4 {
			errs = append(errs, fmt.Errorf("flakes.tsv: %q has %d fields, want date, commit, test and cause", line, len(fields)))
			continue
		}
		date, err := time.Parse(time.DateOnly, fields[0])
		if err != nil {
			errs = append(errs, fmt.Errorf("flakes.tsv: %w", err))
			continue
		}
		if now.Sub(date) > fortnight {
			continue
		}
		if seen[fields[2]]++; seen[fields[2]] == tooMany {
			errs = append(errs, fmt.Errorf("%s was a flake %d times in fourteen days: mend it, or take it out of make test until it is", fields[2], tooMany))
		}
	}
	return errors.Join(errs...)
}
