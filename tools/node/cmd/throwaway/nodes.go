package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"text/tabwriter"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/tools/node"
)

func startCommand(c *node.Config) *cobra.Command {
	var size, flavor string
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Start a node and keep it until Ctrl-C",
		Long: `Start a node and keep it until Ctrl-C or SIGTERM, then remove all of it.

The filesystem's file is sparse: it takes the space that is used in it.
--containerd debian runs the containerd in PATH, --containerd v2 the one that
tools/containerd builds (in about a minute, once).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if c.SizeBytes, err = units.RAMInBytes(size); err != nil {
				return fmt.Errorf("--size: %w", err)
			}
			c.Containerd, c.Log = node.Flavor(flavor), cmd.ErrOrStderr()
			n, err := node.Start(cmd.Context(), *c)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, n.Close()) }()
			fmt.Fprintf(cmd.OutOrStdout(), "CONTAINERD_ADDRESS=%s\nEBB_NODE_MOUNT=%s\n", n.Socket(), n.Mount())
			<-cmd.Context().Done()
			return nil
		},
	}
	cmd.Flags().StringVar(&c.Name, "name", "node", "the node's name")
	cmd.Flags().StringVar(&c.FS, "fs", "ext4", "filesystem: ext4, xfs or btrfs")
	cmd.Flags().StringVar(&size, "size", "1GiB", "size of the filesystem")
	cmd.Flags().StringVar(&flavor, "containerd", string(node.Debian), "containerd: debian or v2")
	return cmd
}

func listCommand(c *node.Config) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List nodes, also those left behind",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			nodes, err := node.List(c.Base)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tFS\tSIZE\tCONTAINERD\tOWNER\tDIR")
			for _, n := range nodes {
				owner := fmt.Sprintf("pid %d", n.OwnerPID)
				if !n.Owned {
					owner = "none: clean removes it"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n",
					n.Name, n.FS, units.BytesSize(float64(n.SizeBytes)), n.Containerd, owner, n.Dir)
			}
			return w.Flush()
		},
	}
}

func cleanCommand(c *node.Config) *cobra.Command {
	return &cobra.Command{
		Use:   "clean",
		Short: "Remove all that is left of nodes whose owner is dead",
		Long: `Remove all that is left of nodes whose owner is dead: containers, containerd,
mounts, loop devices, cgroups and files. Nodes that a living process owns are
left alone. Running it twice, or with nothing to do, is harmless.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := slog.New(slog.NewTextHandler(os.Stderr, nil))
			gone, err := node.Clean(cmd.Context(), c.Base, log)
			for _, name := range gone {
				fmt.Fprintln(cmd.OutOrStdout(), "removed", name)
			}
			return err
		},
	}
}
