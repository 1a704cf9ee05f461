// Package report is what a test machine and the process that started it tell
// each other: the order goes in as a file, the report comes out line by line.
package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// OrderFile is where the guest finds its order.
const OrderFile = "/order.json"

// Order says what a machine is to do.
type Order struct {
	Modules []string // files, in an order in which they can be loaded
	Suites  []Suite
}

// Suite is one test binary to run.
type Suite struct {
	Name    string // the package, as people write it
	Program string
	Dir     string
	Args    []string
	Env     []string
	Timeout time.Duration
}

// Report is what a machine has said so far.
type Report struct {
	Kernel   Kernel
	Programs []Program
	Suites   []Result
	Running  string // the suite that has begun and not ended
	Ended    bool   // the guest did all it was to do
}

// Kernel is who ran the tests.
type Kernel struct {
	Release, Version string
	Modules          []string // loaded before the first suite
}

// Program is one kernel program: where it goes, and whether it got there.
type Program struct {
	Object, Name, AttachPoint string
	Attached                  bool
	Reason                    string // why not attached, or in what way less exact
	Working                   bool   // attached, or not and all is well
}

// Result is how a suite ended.
type Result struct {
	Name                 string
	Exit                 int // -1: ended by a signal or its timeout
	Reason               string
	Seconds              float64
	Passed               int // tests and subtests
	Skipped, FailedTests []string
}

// Line is one line of a report; one of its fields is set.
type Line struct {
	Kernel   *Kernel   `json:",omitempty"`
	Programs []Program `json:",omitempty"`
	Begin    string    `json:",omitempty"`
	Result   *Result   `json:",omitempty"`
	End      bool      `json:",omitempty"`
}

// Write sends one line.
func Write(w io.Writer, l Line) error {
	if err := json.NewEncoder(w).Encode(l); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// maxLine bounds a line: the guest may be broken in any way.
const maxLine = 1 << 20

// Read collects the lines of a machine that has ended. The last line may be cut
// short, as by a panic, and is then not counted.
func Read(r io.Reader) (Report, error) {
	var report Report
	lines := bufio.NewReaderSize(r, maxLine)
	for {
		text, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return report, nil
		}
		if err != nil {
			return report, fmt.Errorf("read report: %w", err)
		}
		var l Line
		if err := json.Unmarshal(text, &l); err != nil {
			return report, fmt.Errorf("read report: %w: %.200q", err, text)
		}
		report.add(l)
	}
}

func (r *Report) add(l Line) {
	switch {
	case l.Kernel != nil:
		r.Kernel = *l.Kernel
	case l.Programs != nil:
		r.Programs = l.Programs
	case l.Begin != "":
		r.Running = l.Begin
	case l.Result != nil:
		r.Suites, r.Running = append(r.Suites, *l.Result), ""
	case l.End:
		r.Ended = true
	}
}

// ErrNoVerdict says that a machine ended before its guest was done.
var ErrNoVerdict = errors.New("the machine ended without a verdict")

// ErrFailed says that tests failed, and the machine did all it was to do.
var ErrFailed = errors.New("tests failed")

// Verdict is nil if every suite of the order ran and passed.
func (r Report) Verdict(o Order) error {
	if !r.Ended {
		at := "before the first suite"
		if r.Running != "" {
			at = "in " + r.Running
		} else if n := len(r.Suites); n > 0 {
			at = "after " + r.Suites[n-1].Name
		}
		return fmt.Errorf("%w, %s", ErrNoVerdict, at)
	}
	if len(r.Suites) != len(o.Suites) {
		return fmt.Errorf("%w: %d suites ended, %d were ordered", ErrNoVerdict, len(r.Suites), len(o.Suites))
	}
	var failed []string
	if len(o.Suites) == 0 { // the programs are what the machine was for
		failed = r.broken()
	}
	for i, s := range r.Suites {
		switch {
		case s.Name != o.Suites[i].Name:
			return fmt.Errorf("%w: %s ended where %s was ordered", ErrNoVerdict, s.Name, o.Suites[i].Name)
		case s.Exit != 0:
			failed = append(failed, s.failure())
		case s.Passed == 0:
			// An exit status of 0 can also mean that a pattern matched nothing.
			failed = append(failed, s.Name+": no test ran")
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%w: %s", ErrFailed, strings.Join(failed, "; "))
	}
	return nil
}

// broken says which programs did not get where they go.
func (r Report) broken() []string {
	if len(r.Programs) == 0 {
		return []string{"no kernel program was tried"}
	}
	var list []string
	for _, p := range r.Programs {
		if !p.Working {
			list = append(list, fmt.Sprintf("program %s (%s): %s", p.Name, p.AttachPoint, p.Reason))
		}
	}
	return list
}

func (s Result) failure() string {
	text := fmt.Sprintf("%s: exit status %d", s.Name, s.Exit)
	if s.Reason != "" {
		text += ", " + s.Reason
	}
	if len(s.FailedTests) > 0 {
		text += ": " + strings.Join(s.FailedTests, ", ")
	}
	return text
}
