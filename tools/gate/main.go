// Command gate runs one stage of the checks and adds a line on it to the record of the run.
//
//	gate test [-second-look] [-run RE] [-skip RE] STAGE [GO TEST FLAGS] -- PACKAGES
//	gate run STAGE COMMAND [ARGS]
//	gate report
//
// A failed test of a stage with -second-look runs again, twice and alone. If it passes both
// times it is a flake, which is printed and recorded. What never gets a second look stands at
// [final]. The environment says where the record is: EBB_RECORD, bin/gate.tsv by default.
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
	record := recordFile()
	switch verb := append(args, "")[0]; verb {
	case "test":
		return test(ctx, args[1:], record, out)
	case "run":
		if len(args) < 3 {
			return errors.New("usage: gate run STAGE COMMAND [ARGS]")
		}
		return runStage(ctx, args[1], args[2:], record, out)
	case "report":
		return record.report(out)
	default:
		return fmt.Errorf("unknown command %q: it is test, run or report", verb)
	}
}

// runStage runs a command that is no test.
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

// test runs go test. What it prints is what failed; all else is counted.
func test(ctx context.Context, args []string, record record, out io.Writer) error {
	t := tests{ctx: ctx, out: out}
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	second := flags.Bool("second-look", false, "")
	run, skip := flags.String("run", "", ""), flags.String("skip", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dashes := slices.Index(flags.Args(), "--")
	if dashes < 1 || dashes == flags.NArg()-1 {
		return errors.New("usage: gate test [-second-look] [-run RE] [-skip RE] STAGE [GO TEST FLAGS] -- PACKAGES")
	}
	stage := flags.Arg(0)
	t.flags = flags.Args()[1:dashes]
	start := time.Now()
	fmt.Fprintf(out, "gate: %s\n", stage)
	first, err := t.goTest(selection(*run, *skip), flags.Args()[dashes+1:])
	if err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	earlier, err := record.flakes()
	if err != nil {
		return err
	}
	var flakes []string
	if *second {
		flakes = t.secondLook(first, len(earlier))
	}
	failed := len(first.failures())
	if err := record.add(row{
		Stage: stage, Start: start, Red: failed > 0, Passed: first.passed, Failed: failed, Skipped: len(first.skipped), Flakes: flakes,
	}); err != nil {
		return err
	}
	fmt.Fprintf(out, "gate: %s: %d passed, %d failed, %d skipped\n", stage, first.passed, failed, len(first.skipped))
	if failed > 0 {
		for _, f := range first.failures() {
			fmt.Fprintln(out, "gate: red:", f)
		}
		return fmt.Errorf("%s failed", stage)
	}
	return nil
}

func selection(run, skip string) (args []string) {
	if run != "" {
		args = append(args, "-run", run)
	}
	if skip != "" {
		args = append(args, "-skip", skip)
	}
	return args
}
