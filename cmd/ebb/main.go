// Command ebb is for people: what a node looks like to ebb, and what to do
// about it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/doctor"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	var verdict exitCode
	switch {
	case err == nil:
	case errors.As(err, &verdict):
		os.Exit(int(verdict))
	default:
		fmt.Fprintln(os.Stderr, "ebb:", err)
		os.Exit(doctor.ExitNotRun)
	}
}

// exitCode ends a command that did what it was asked for, and has more to tell
// than that.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

const long = `ebb keeps the disks of Kubernetes nodes at low tide.

ebb-agent does the work on each node. This command is for people: it looks, and
explains. It changes nothing.`

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cmd := &cobra.Command{
		Use:           "ebb",
		Short:         "Look at a node as ebb does",
		Long:          long,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(doctorCommand(stdout))
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	return cmd.ExecuteContext(ctx)
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
