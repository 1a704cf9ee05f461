// Command throwaway starts and removes throwaway container nodes, and puts
// images, containers and ballast on them. See package node.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/tools/node"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := root().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "throwaway:", err)
		stop()
		os.Exit(1)
	}
}

func root() *cobra.Command {
	var c node.Config
	cmd := &cobra.Command{
		Use:   "throwaway",
		Short: "Container nodes to fill, break and throw away",
		Long: `A throwaway node is a loopback filesystem of a chosen kind and size with a
private containerd on it. Nothing outside sees it, and nothing of it stays.

A node lives as long as the "start" that made it: keep that one running in a
terminal and work on the node from another. Whatever is left of nodes whose
"start" was killed is removed by "clean".`,
		Example: `  throwaway start --name a --fs xfs --size 2GiB &
  throwaway import --name a node.test/app:1 --layer base:40MiB --layer app:10MiB:200
  throwaway run --name a node.test/app:1 -- find /data
  throwaway fill --name a --to 85
  throwaway list
  throwaway clean`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.PersistentFlags().StringVar(&c.Base, "base", node.BaseDir(), "directory that nodes live in ($EBB_NODE_DIR)")
	cmd.AddCommand(startCommand(&c), listCommand(&c), cleanCommand(&c),
		importCommand(&c), runCommand(&c), fillCommand(&c), unfillCommand(&c))
	return cmd
}

// onNode gives a command the --name flag and the node of that name.
func onNode(c *node.Config, cmd *cobra.Command, do func(context.Context, *node.Node, []string) error) *cobra.Command {
	cmd.Flags().StringVar(&c.Name, "name", "node", "the node's name")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n, err := node.Attach(*c)
		if err != nil {
			return err
		}
		defer n.Close()
		return do(cmd.Context(), n, args)
	}
	return cmd
}
