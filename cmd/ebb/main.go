// Command ebb is for people: it shows the state of nodes and of a cluster, explains ebb's
// decisions, and controls ebb.
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

const long = `ebb shows how full the nodes of a Kubernetes cluster are, which images ebb removes, and why.
It also checks nodes, and shows what the deletion of an object would do.

The work on each node is done by ebb-agent, which this command asks through the API server.
That needs a kubeconfig, and the rights to list pods and to exec in ebb's namespace. On a
node, --socket asks the agent there without the API server.

The command changes nothing, with these exceptions:

  reclaim                        removes images
  pause, resume                  pauses and resumes agents
  control pause, control resume  pauses and resumes the controller
  control confirm-restore        lets the controller collect again after an etcd restore
  control confirm-lost           lets it delete what nodes that are gone have left
  uninstall unload               cleans the nodes after ebb was uninstalled

` + exitTable

const examples = `  # the state of agents and controller, and the nodes close to their thresholds
  ebb status
  ebb nodes

  # why an image is still there
  ebb why busybox --node worker-1

  # which images would go if 20 GiB more were needed
  ebb plan --free 20Gi --node worker-1

  # check this node, as root
  ebb doctor

  # what the deletion of a Deployment would do
  ebb cascade deployment/web -n shop

  # objects in this cluster that no garbage collector cleans up
  ebb orphans -A

  # an archive for a problem report
  ebb sysdump

  # completions for this shell
  source <(ebb completion bash)`

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	return execute(ctx, command(stdout, stderr), args)
}

// execute runs a command line. An error before a command starts is a usage error.
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

// asPlugin makes the help and the examples of a command name it kubectl ebb.
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
		Short:         "Inspect a node or a cluster",
		Long:          long,
		Example:       examples,
		Version:       program.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(statusCommand(stdout), nodesCommand(stdout), imagesCommand(stdout), whyCommand(stdout), planCommand(stdout), reclaimCommand(stdout, stderr),
		pauseCommand(stdout), resumeCommand(stdout), duCommand(stdout), topCommand(stdout), uiCommand(stdout), historyCommand(stdout))
	cmd.AddCommand(doctorCommand(stdout, stderr), cascadeCommand(stdout, stderr), orphansCommand(stdout, stderr), uninstallCommand(stdout, stderr), controlCommand(stdout, stderr),
		configCommand(stdout), versionCommand(stdout, stderr), sysdumpCommand(stdout, stderr))
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	return cmd
}
