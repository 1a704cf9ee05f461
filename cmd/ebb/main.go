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
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/doctor"
	"github.com/ebb-agent/ebb/agent/program"
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
explains. It changes nothing, but for "uninstall unload".`

const examples = `  # is this node all right?
  ebb doctor

  # what would go with this Deployment?
  ebb cascade deployment/web -n shop

  # what is stuck, or has lost its owner, in this cluster?
  ebb orphans -A

  # completions for this shell
  source <(ebb completion bash)`

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cmd := command(stdout, stderr)
	cmd.SetArgs(args)
	return cmd.ExecuteContext(ctx)
}

func command(stdout, stderr io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "ebb",
		Short:         "Look at a node, or a cluster, as ebb does",
		Long:          long,
		Example:       examples,
		Version:       program.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(doctorCommand(stdout), cascadeCommand(stdout, stderr), orphansCommand(stdout, stderr), uninstallCommand(stdout, stderr), controlCommand(stdout))
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	return cmd
}
