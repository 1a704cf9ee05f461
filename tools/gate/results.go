package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// event is one line of go test -json; see go doc test2json.
type event struct {
	Action, Package, Test, Output, ImportPath, FailedBuild string
	Elapsed                                                float64
}

// results are the results of a go test.
type results struct {
	packages map[string]*pkg // failed packages
	passed   int             // top-level tests
	passes   map[string]int  // the same by package and name
	skipped  []string
	broken   string // why go test failed although no package did
}

// pkg is a package that failed.
type pkg struct {
	tests map[string]int // failures of each top-level test
	final string         // why there is no second look, or ""
}

// failures returns the failed tests, and the packages that failed without a failed test.
func (r *results) failures() (list []string) {
	for _, path := range slices.Sorted(maps.Keys(r.packages)) {
		p := r.packages[path]
		for _, name := range slices.Sorted(maps.Keys(p.tests)) {
			list = append(list, path+" "+name)
		}
		if len(p.tests) == 0 {
			list = append(list, path)
		}
	}
	if r.broken != "" {
		list = append(list, r.broken)
	}
	return list
}

// final matches output after which a failure gets no second look: it proves a defect however
// often the test passes. A test marks such output with "FINAL:".
var final = regexp.MustCompile(`(?m)WARNING: DATA RACE|^panic: |^fatal error: |test timed out after|found unexpected goroutines|FINAL:`)

// tests runs go test with the same flags.
type tests struct {
	ctx   context.Context
	flags []string
	out   io.Writer
	all   bool // print the output of passed tests, too
}

// goTest returns an error if go test could not run at all.
func (t *tests) goTest(args, packages []string) (*results, error) {
	command := slices.Concat([]string{"test", "-json"}, t.flags, args, packages)
	cmd := exec.CommandContext(t.ctx, goCommand(), command...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r, readErr := t.read(stdout)
	err = cmd.Wait()
	var exit *exec.ExitError
	if t.ctx.Err() != nil || readErr != nil || err != nil && !errors.As(err, &exit) {
		return nil, errors.Join(context.Cause(t.ctx), readErr, err)
	}
	if err != nil && len(r.packages) == 0 {
		r.broken = "go test: " + err.Error()
	}
	return r, nil
}

func goCommand() string {
	if name := os.Getenv("GO"); name != "" {
		return name
	}
	return "go"
}

// outputs holds the output of top-level tests so far; "" is the package's own.
type outputs map[string]*strings.Builder

// read reads the output of go test -json. It prints a line for each package that took a second
// or more. For a failed package it prints the output of the failed tests.
func (t *tests) read(in io.Reader) (*results, error) {
	r := &results{packages: map[string]*pkg{}, passes: map[string]int{}}
	packages, builds := map[string]outputs{}, map[string]string{}
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, 64<<20)
	for scan.Scan() {
		var e event
		if err := json.Unmarshal(scan.Bytes(), &e); err != nil {
			fmt.Fprintln(t.out, scan.Text()) // not an event of go test
			continue
		}
		printed := packages[e.Package]
		if printed == nil {
			printed = outputs{}
			packages[e.Package] = printed
		}
		top, _, sub := strings.Cut(e.Test, "/")
		switch {
		case e.Action == "output":
			if printed[top] == nil {
				printed[top] = &strings.Builder{}
			}
			printed[top].WriteString(e.Output)
		case e.Action == "build-output":
			builds[e.ImportPath] += e.Output
		case e.Test == "" && (e.Action == "pass" || e.Action == "skip" || e.Action == "fail"):
			r.end(e, printed, builds[e.FailedBuild], t.out)
			delete(packages, e.Package)
		case e.Action == "skip":
			r.skipped = append(r.skipped, e.Package+" "+e.Test)
		case sub:
		case e.Action == "pass":
			r.passed++
			r.passes[e.Package+" "+top]++
			if t.all {
				fmt.Fprint(t.out, printed[top])
			}
			delete(printed, top)
		case e.Action == "fail":
			r.failed(e.Package).tests[top]++
		}
	}
	return r, scan.Err()
}

func (r *results) failed(path string) *pkg {
	if r.packages[path] == nil {
		r.packages[path] = &pkg{tests: map[string]int{}}
	}
	return r.packages[path]
}

// end handles the end of a package. printed is the output of its tests that did not pass.
func (r *results) end(e event, printed outputs, build string, out io.Writer) {
	if e.Action != "fail" {
		if e.Elapsed >= 1 {
			fmt.Fprintf(out, "ok   %s (%.1f s)\n", e.Package, e.Elapsed)
		}
		return
	}
	p, all := r.failed(e.Package), build
	for _, top := range slices.Sorted(maps.Keys(printed)) {
		text := printed[top].String()
		// If tests failed, the output of skipped or unfinished tests does not explain the
		// failure.
		if top == "" || p.tests[top] > 0 || len(p.tests) == 0 || final.MatchString(text) {
			all += text
		}
	}
	switch found := final.FindString(all); {
	case len(p.tests) == 0:
		p.final = "the package failed, not one of its tests"
	case found != "":
		p.final = "its output has " + strings.TrimSpace(found)
	}
	fmt.Fprintf(out, "--- FAIL %s (%.1f s)\n%s", e.Package, e.Elapsed, all)
}
