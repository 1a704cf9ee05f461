//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/tools/process"
	"github.com/ebb-agent/ebb/tools/vm/report"
)

// runSuite runs one test binary to its end, or to its timeout.
func runSuite(s report.Suite) report.Result {
	fmt.Printf("=== %s\n", s.Name)
	result := report.Result{Name: s.Name}
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), s.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.Program, s.Args...)
	cmd.Dir, cmd.Env = s.Dir, append(os.Environ(), s.Env...)
	// A process group of its own, so that children which hold the pipe are killed with
	// it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out := output(os.Stdout, &result)
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	out.Flush()
	result.Seconds = time.Since(begun).Seconds()
	result.Exit, result.Reason = verdict(ctx, s, cmd, err)
	fmt.Printf("=== %s ended after %.0f s\n", s.Name, result.Seconds)
	return result
}

func verdict(ctx context.Context, s report.Suite, cmd *exec.Cmd, err error) (int, string) {
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return -1, fmt.Sprintf("no end within %s", s.Timeout)
	case err == nil:
		return 0, ""
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode(), ""
	default:
		return -1, err.Error() // not started, or ended by a signal
	}
}

// verdictLine matches the line by which the testing package reports the end of a test.
var verdictLine = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+)`)

// output writes a test's output to the console and counts the verdicts. It omits lines
// that only report the start of a test, because a serial port is slow.
func output(console io.Writer, result *report.Result) *process.Lines {
	return &process.Lines{Line: func(text string) {
		if strings.HasPrefix(text, "=== ") {
			return
		}
		if m := verdictLine.FindStringSubmatch(text); m != nil {
			switch m[1] {
			case "PASS":
				result.Passed++
			case "FAIL":
				result.FailedTests = append(result.FailedTests, m[2])
			case "SKIP":
				result.Skipped = append(result.Skipped, m[2])
			}
		}
		fmt.Fprintln(console, text)
	}}
}
