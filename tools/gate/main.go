// Command gate runs one stage of the checks and appends a line about it to the record of the run.
//
//	gate test [-second-look] [-run RE] [-skip RE] STAGE [GO TEST FLAGS] -- PACKAGES
//	gate run STAGE COMMAND [ARGS]
//	gate hunt [-run RE] [-skip RE] N [GO TEST FLAGS] -- PACKAGES
//	gate flakes
//	gate report
//
// A failed test of a stage with -second-look runs again, twice and alone. If it passes both times it
// is a flake, which is printed and recorded. [final] matches failures that get no second look. A test
// that skips itself fails the stage, unless skips.txt lists it. Only root can run all tests, so this
// rule applies to root alone. hunt runs each test N times, one at a time, beside two busy loops, and
// prints how often each failed. flakes fails if flakes.tsv lists a test three times in fourteen days.
// The environment variable EBB_RECORD names the file of the record; the default is bin/gate.tsv.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := gate(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(1)
	}
}

func gate(ctx context.Context, args []string, out io.Writer) error {
	if dryRun(os.Getenv("MAKEFLAGS")) {
		fmt.Fprintln(out, "gate", strings.Join(args, " "))
		return nil
	}
	record := recordFile()
	switch verb := append(args, "")[0]; verb {
	case "test":
		return test(ctx, args[1:], record, out)
	case "run":
		if len(args) < 3 {
			return errors.New("usage: gate run STAGE COMMAND [ARGS]")
		}
		return runStage(ctx, args[1], args[2:], record, out)
	case "hunt":
		return hunt(ctx, args[1:], out)
	case "flakes":
		return checkFlakes(flakesList, time.Now())
	case "report":
		return record.report(out)
	default:
		return fmt.Errorf("unknown command %q: it is test, run, hunt, flakes or report", verb)
	}
}

// dryRun reports whether make runs with -n: it runs lines with $(MAKE) even then. The first word of
// MAKEFLAGS has the one-letter flags.
func dryRun(makeFlags string) bool {
	flags, _, _ := strings.Cut(makeFlags, " ")
	return !strings.HasPrefix(flags, "-") && !strings.Contains(flags, "=") && strings.Contains(flags, "n")
}

// runStage runs a stage that is a command, not a go test.
func runStage(ctx context.Context, stage string, command []string, record record, out io.Writer) error {
	start := time.Now()
	fmt.Fprintf(out, "gate: %s\n", stage)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, os.Stderr
	err := cmd.Run()
	if err := record.add(row{Stage: stage, Start: start, Red: err != nil}); err != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	return nil
}

// selected holds the arguments of test and hunt.
type selected struct {
	second          bool
	tests           []string // -run and -skip
	name            string   // the stage, or the number of runs
	flags, packages []string
}

func parse(verb string, args []string) (s selected, err error) {
	flags := flag.NewFlagSet(verb, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	usage := "usage: gate hunt [-run RE] [-skip RE] N [GO TEST FLAGS] -- PACKAGES"
	if verb == "test" {
		flags.BoolVar(&s.second, "second-look", false, "")
		usage = "usage: gate test [-second-look] [-run RE] [-skip RE] STAGE [GO TEST FLAGS] -- PACKAGES"
	}
	run, skip := flags.String("run", "", ""), flags.String("skip", "", "")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	dashes := slices.Index(flags.Args(), "--")
	if dashes < 1 || dashes == flags.NArg()-1 {
		return s, errors.New(usage)
	}
	if *run != "" {
		s.tests = append(s.tests, "-run", *run)
	}
	if *skip != "" {
		s.tests = append(s.tests, "-skip", *skip)
	}
	s.name, s.flags, s.packages = flags.Arg(0), flags.Args()[1:dashes], flags.Args()[dashes+1:]
	return s, nil
}

// test runs go test. It prints the output of failed tests, and counts the others.
func test(ctx context.Context, args []string, record record, out io.Writer) error {
	s, err := parse("test", args)
	if err != nil {
		return err
	}
	stage, t := s.name, tests{ctx: ctx, out: out, flags: s.flags}
	start := time.Now()
	fmt.Fprintf(out, "gate: %s\n", stage)
	first, err := t.goTest(s.tests, s.packages)
	if err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	earlier, err := record.flakes()
	if err != nil {
		return err
	}
	var flakes []string
	if s.second {
		flakes = t.secondLook(first, len(earlier))
	}
	for _, name := range first.skipped {
		fmt.Fprintln(out, "gate: skipped:", name)
	}
	failures := first.failures()
	if os.Geteuid() == 0 {
		failures = append(failures, unlisted(first.skipped, skipsList)...)
	}
	failed := len(failures)
	if err := record.add(row{
		Stage: stage, Start: start, Red: failed > 0, Passed: first.passed, Failed: failed, Skipped: len(first.skipped), Flakes: flakes,
	}); err != nil {
		return err
	}
	fmt.Fprintf(out, "gate: %s: %d passed, %d failed, %d skipped\n", stage, first.passed, failed, len(first.skipped))
	if failed > 0 {
		for _, f := range failures {
			fmt.Fprintln(out, "gate: red:", f)
		}
		return fmt.Errorf("%s failed", stage)
	}
	return nil
}
