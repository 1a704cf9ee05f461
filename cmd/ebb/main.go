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
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/program"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	cmd := command(os.Stdout, os.Stderr)
	if filepath.Base(os.Args[0]) == plugin {
		asPlugin(cmd)
	}
	err := execute(ctx, cmd, os.Args[1:])
	stop()
	var verdict exitCode
	if err != nil && !errors.As(err, &verdict) {
		fmt.Fprintln(os.Stderr, "ebb:", err)
	}
	os.Exit(codeOf(err))
}

const long = `ebb keeps the disks of Kubernetes nodes at low tide.

ebb-agent does the work on each node. This command is for people: it asks the
agents, checks and explains, and changes nothing. The exceptions are "reclaim", "pause",
"resume", "uninstall unload" and "control".

` + exitTable

const examples = `  # how does ebb stand, and which nodes are near their thresholds?
  ebb status
  ebb nodes

  # why is this image still there?
  ebb why busybox --node worker-1

  # what would go if 20 GiB more were needed?
  ebb plan --free 20Gi --node worker-1

  # is this node all right?
  ebb doctor

  # what would go with this Deployment?
  ebb cascade deployment/web -n shop

  # what is stuck, or has lost its owner, in this cluster?
  ebb orphans -A

  # what a report about ebb needs, in one file
  ebb sysdump

  # completions for this shell
  source <(ebb completion bash)`

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	return execute(ctx, command(stdout, stderr), args)
}

// execute runs a command line.
func execute(ctx context.Context, cmd *cobra.Command, args []string) error {
	began := false
	noteStart(cmd, &began)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	if err != nil && !began {
		return usageError{err}
	}
	return err
}

// plugin is the name of this program as a plugin of kubectl.
const plugin = "kubectl-ebb"

// asPlugin has a command speak of itself as kubectl's users know it.
func asPlugin(cmd *cobra.Command) {
	cmd.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl ebb"}
	var examples func(*cobra.Command)
	examples = func(c *cobra.Command) {
		c.Example = strings.ReplaceAll(c.Example, "  ebb ", "  kubectl ebb ")
		for _, child := range c.Commands() {
			examples(child)
		}
	}
	examples(cmd)
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
	cmd.AddCommand(statusCommand(stdout), nodesCommand(stdout), imagesCommand(stdout), whyCommand(stdout), planCommand(stdout), reclaimCommand(stdout, stderr),
		pauseCommand(stdout), resumeCommand(stdout), duCommand(stdout), topCommand(stdout), historyCommand(stdout))
	cmd.AddCommand(doctorCommand(stdout, stderr), cascadeCommand(stdout, stderr), orphansCommand(stdout, stderr), uninstallCommand(stdout, stderr), controlCommand(stdout, stderr),
		configCommand(stdout), versionCommand(stdout, stderr), sysdumpCommand(stdout, stderr))
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	return cmd
}
