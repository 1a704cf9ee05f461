// Package report defines the data between a test machine and the process that started
// it: an order goes into the machine as a file, and a report comes out line by line.
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

// OrderFile is the path of the order in the machine.
const OrderFile = "/order.json"

// Order is the work of a machine.
type Order struct {
	Modules []string // files, in load order
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

// Report is what the guest has reported so far.
type Report struct {
	Kernel   Kernel
	Programs []Program
	Suites   []Result
	Running  string // suite that has begun and not ended, or ""
	Ended    bool   // the guest completed its order
}

// Kernel is the kernel on which the tests ran.
type Kernel struct {
	Release, Version string
	Modules          []string // loaded before the first suite
}

// Program is one kernel program: its attach point, and whether it was attached.
type Program struct {
	Object, Name, AttachPoint string
	Attached                  bool
	Reason                    string // why it is not attached, or how it is less exact
	Working                   bool   // attached, or rightly not attached
}

// Result is the outcome of a suite.
type Result struct {
	Name                 string
	Exit                 int // -1: ended by a signal or its timeout
	Reason               string
	Seconds              float64
	Passed               int // tests and subtests
	Skipped, FailedTests []string
}

// Line is one line of a report. Exactly one field is set.
type Line struct {
	Kernel   *Kernel   `json:",omitempty"`
	Programs []Program `json:",omitempty"`
	Begin    string    `json:",omitempty"`
	Result   *Result   `json:",omitempty"`
	End      bool      `json:",omitempty"`
}

// Write writes one line.
func Write(w io.Writer, l Line) error {
	if err := json.NewEncoder(w).Encode(l); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// maxLine bounds a line, in bytes: the guest may be broken in any way.
const maxLine = 1 << 20

// Read reads the report of a machine that has ended. It ignores an incomplete last
// line, as after a panic.
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

// ErrNoVerdict is the error for a machine that ended before its guest was done.
var ErrNoVerdict = errors.New("the machine ended without a verdict")

// ErrFailed is the error for failed tests in a machine that completed its order.
var ErrFailed = errors.New("tests failed")

// Verdict returns nil if every suite of the order ran and passed.
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
	if len(o.Suites) == 0 { // the machine was only to attach the programs
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

// broken returns a message for each program that is not attached and should be.
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
