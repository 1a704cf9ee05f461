//go:build linux

package main

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/ebb-agent/ebb/tools/vm/report"
)

func shell(script string) report.Suite {
	return report.Suite{Name: "s", Program: "/bin/sh", Args: []string{"-c", script}, Dir: "/", Timeout: time.Minute}
}

func TestSuiteEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		suite report.Suite
		exit  int
		want  string
	}{
		"well":    {shell("exit 0"), 0, ""},
		"badly":   {shell("exit 3"), 3, ""},
		"killed":  {shell("kill -9 $$"), -1, "signal: killed"},
		"missing": {report.Suite{Program: "/does/not/exist", Timeout: time.Minute}, -1, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			r := runSuite(tt.suite)
			if r.Exit != tt.exit || !strings.Contains(r.Reason, tt.want) {
				t.Errorf("exit %d, %q; want %d, %q", r.Exit, r.Reason, tt.exit, tt.want)
			}
		})
	}
}

// TestSuiteThatHangs: what it started goes with it, although it holds the pipe.
func TestSuiteThatHangs(t *testing.T) {
	s := shell("sleep 1000 & sleep 1000")
	s.Timeout = 100 * time.Millisecond
	r := runSuite(s)
	if r.Exit != -1 || !strings.Contains(r.Reason, "no end within 100ms") {
		t.Errorf("exit %d, %q", r.Exit, r.Reason)
	}
}

func TestOutputCountsVerdicts(t *testing.T) {
	text := "=== RUN   TestA\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/x (0.00s)\n" +
		"    file_test.go:1: --- FAIL: quoted\n--- FAIL: TestB (1.00s)\n--- SKIP: TestC (0.00s)\nFAIL"
	var console bytes.Buffer
	var result report.Result
	o := output(&console, &result)
	// One byte at a time: a pipe may cut a line anywhere.
	if _, err := io.Copy(o, iotest.OneByteReader(strings.NewReader(text))); err != nil {
		t.Fatal(err)
	}
	o.Flush()
	want := report.Result{Passed: 2, FailedTests: []string{"TestB"}, Skipped: []string{"TestC"}}
	if !reflect.DeepEqual(result, want) {
		t.Errorf("result is %+v, want %+v", result, want)
	}
	if got := console.String(); got != strings.TrimPrefix(text, "=== RUN   TestA\n")+"\n" {
		t.Errorf("console got %q", got)
	}
}
