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

// results are what a go test said.
type results struct {
	packages map[string]*pkg // that failed
	passed   int             // tests at the top
	skipped  []string
	broken   string // why go test itself failed, though no package did
}

// pkg is a package that failed.
type pkg struct {
	tests map[string]string // output of each failed test at the top
	final string            // why there is no second look; empty if there may be one
}

// failures are the failed tests, and the packages that failed without one.
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

// final matches output after which nothing is tried again: what it says is true however
// often the test passes. A test marks its own with "FINAL:".
var final = regexp.MustCompile(`(?m)WARNING: DATA RACE|^panic: |^fatal error: |test timed out after|found unexpected goroutines|FINAL:`)

// tests runs go test with the same flags.
type tests struct {
	ctx   context.Context
	flags []string
	out   io.Writer
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
	r, readErr := read(stdout, t.out)
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

// read what go test -json prints. Each package has a line on out, and all output of what
// failed follows it.
func read(in io.Reader, out io.Writer) (*results, error) {
	r := &results{packages: map[string]*pkg{}}
	output := map[[2]string]*strings.Builder{} // by package and test at the top; "": the package's own
	builds := map[string]string{}
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, 64<<20)
	for scan.Scan() {
		var e event
		if err := json.Unmarshal(scan.Bytes(), &e); err != nil {
			fmt.Fprintln(out, scan.Text()) // not of go test
			continue
		}
		top, _, sub := strings.Cut(e.Test, "/")
		key := [2]string{e.Package, top}
		switch e.Action {
		case "output":
			if output[key] == nil {
				output[key] = &strings.Builder{}
			}
			output[key].WriteString(e.Output)
		case "build-output":
			builds[e.ImportPath] += e.Output
		case "pass", "skip", "fail":
			if e.Test == "" {
				r.end(e, output, builds[e.FailedBuild], out)
				break
			}
			r.count(e, sub, output)
		}
	}
	return r, scan.Err()
}

// count a test that has ended.
func (r *results) count(e event, sub bool, output map[[2]string]*strings.Builder) {
	top, _, _ := strings.Cut(e.Test, "/")
	switch {
	case e.Action == "skip":
		r.skipped = append(r.skipped, e.Package+" "+e.Test)
	case sub:
	case e.Action == "pass":
		r.passed++
		delete(output, [2]string{e.Package, top})
	default:
		p := r.failed(e.Package)
		p.tests[top] = ""
	}
}

func (r *results) failed(path string) *pkg {
	if r.packages[path] == nil {
		r.packages[path] = &pkg{tests: map[string]string{}}
	}
	return r.packages[path]
}

// end of a package.
func (r *results) end(e event, output map[[2]string]*strings.Builder, build string, out io.Writer) {
	var all strings.Builder
	all.WriteString(build)
	keys := slices.SortedFunc(maps.Keys(output), func(a, b [2]string) int { return strings.Compare(a[0]+a[1], b[0]+b[1]) })
	if e.Action == "fail" {
		p := r.failed(e.Package)
		for _, key := range keys {
			if key[0] != e.Package {
				continue
			}
			text := output[key].String()
			if _, is := p.tests[key[1]]; is {
				p.tests[key[1]] = text
			} else if key[1] != "" && len(p.tests) > 0 && !final.MatchString(text) {
				continue // a test that was skipped, or had not ended
			}
			all.WriteString(text)
		}
		switch found := final.FindString(all.String()); {
		case len(p.tests) == 0:
			p.final = "the package failed, not one of its tests"
		case found != "":
			p.final = "it said " + strings.TrimSpace(found)
		}
		fmt.Fprintf(out, "--- FAIL %s (%.1f s)\n%s", e.Package, e.Elapsed, all.String())
	} else if e.Elapsed >= 1 {
		fmt.Fprintf(out, "ok   %s (%.1f s)\n", e.Package, e.Elapsed)
	}
	for _, key := range keys {
		if key[0] == e.Package {
			delete(output, key)
		}
	}
}
