package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/tools/node"
)

func importCommand(c *node.Config) *cobra.Command {
	var (
		namespace string
		layers    []string
		image     node.Image
	)
	cmd := &cobra.Command{
		Use:   "import REFERENCE...",
		Short: "Build an image and import it under these names",
		Long: `Build an image on the spot and import it under these names; print its ID.

Each --layer SEED:SIZE[:FILES] adds a layer of incompressible files below
/data/SEED. The same description is the same layer, in whatever image.`,
		Example: "  throwaway import node.test/app:1 node.test/app:latest --layer base:40MiB --layer app:2MiB:100",
		Args:    cobra.MinimumNArgs(1),
	}
	cmd.Flags().StringVar(&namespace, "namespace", node.CRINamespace, "containerd namespace")
	cmd.Flags().StringArrayVar(&layers, "layer", nil, "SEED:SIZE[:FILES], repeatable, lowest first")
	cmd.Flags().BoolVar(&image.NoBusybox, "no-busybox", false, "leave out the busybox layer: nothing can run in it")
	return onNode(c, cmd, func(ctx context.Context, n *node.Node, args []string) error {
		image.Name, image.Tags = args[0], args[1:]
		for _, s := range layers {
			layer, err := parseLayer(s)
			if err != nil {
				return err
			}
			image.Layers = append(image.Layers, layer)
		}
		id, err := n.Import(ctx, namespace, image)
		if err == nil {
			fmt.Fprintln(cmd.OutOrStdout(), id)
		}
		return err
	})
}

func parseLayer(s string) (node.Layer, error) {
	bad := fmt.Errorf("--layer %q: want SEED:SIZE[:FILES]", s)
	parts := strings.Split(s, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return node.Layer{}, bad
	}
	size, err := units.RAMInBytes(parts[1])
	if err != nil {
		return node.Layer{}, fmt.Errorf("%w: %w", bad, err)
	}
	layer := node.Layer{Seed: parts[0], Bytes: size}
	if len(parts) == 3 {
		if layer.Files, err = strconv.Atoi(parts[2]); err != nil {
			return node.Layer{}, fmt.Errorf("%w: %w", bad, err)
		}
	}
	return layer, nil
}

func runCommand(c *node.Config) *cobra.Command {
	var (
		spec   node.RunSpec
		detach bool
	)
	cmd := &cobra.Command{
		Use:   "run REFERENCE [-- COMMAND...]",
		Short: "Run a container",
		Long: `Run a container of an imported image, print what it writes and remove it. With
--detach leave it running; it ends with the node.`,
		Example: "  throwaway run --id web --detach node.test/app:1 -- sleep 3600",
		Args:    cobra.MinimumNArgs(1),
	}
	cmd.Flags().StringVar(&spec.Namespace, "namespace", node.CRINamespace, "containerd namespace")
	cmd.Flags().StringVar(&spec.ID, "id", fmt.Sprintf("run-%d", os.Getpid()), "the container's ID")
	cmd.Flags().BoolVar(&detach, "detach", false, "leave it running and print its ID")
	return onNode(c, cmd, func(ctx context.Context, n *node.Node, args []string) (err error) {
		spec.Image, spec.Args = args[0], args[1:]
		container, err := n.Run(ctx, spec)
		if err != nil {
			return err
		}
		if detach {
			fmt.Fprintln(cmd.OutOrStdout(), container.ID())
			return nil
		}
		defer func() { err = errors.Join(err, container.Delete(context.WithoutCancel(ctx))) }()
		code, err := container.Wait(ctx)
		if err != nil {
			return err
		}
		out, err := container.Output()
		if err != nil {
			return err
		}
		fmt.Fprint(cmd.OutOrStdout(), out)
		if code != 0 {
			return fmt.Errorf("container %s: exit code %d", container.ID(), code)
		}
		return nil
	})
}

func fillCommand(c *node.Config) *cobra.Command {
	var (
		percent float64
		bytes   string
		file    string
	)
	cmd := &cobra.Command{
		Use:     "fill",
		Short:   "Fill the node's filesystem",
		Long:    "Write ballast to the node's filesystem, outside containerd's root: up to a\npercentage used, as the kubelet counts, or so many bytes more.",
		Example: "  throwaway fill --to 85\n  throwaway fill --bytes 100MiB",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().Float64Var(&percent, "to", 0, "percent used to reach")
	cmd.Flags().StringVar(&bytes, "bytes", "", "how much to add")
	cmd.Flags().StringVar(&file, "file", "ballast", "name of the file")
	cmd.MarkFlagsOneRequired("to", "bytes")
	cmd.MarkFlagsMutuallyExclusive("to", "bytes")
	return onNode(c, cmd, func(_ context.Context, n *node.Node, _ []string) error {
		if bytes == "" {
			return errors.Join(n.FillTo(file, percent), printUsage(cmd, n))
		}
		size, err := units.RAMInBytes(bytes)
		if err != nil {
			return fmt.Errorf("--bytes: %w", err)
		}
		return errors.Join(n.Fill(file, size), printUsage(cmd, n))
	})
}

func unfillCommand(c *node.Config) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "unfill",
		Short: "Delete what fill has written",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().StringVar(&file, "file", "ballast", "name of the file")
	return onNode(c, cmd, func(_ context.Context, n *node.Node, _ []string) error {
		return errors.Join(n.Unfill(file), printUsage(cmd, n))
	})
}

func printUsage(cmd *cobra.Command, n *node.Node) error {
	u, err := n.Usage()
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %.1f %% used, %s of %s available\n", n.Mount(), u.UsedPercent,
		units.BytesSize(float64(u.AvailableBytes)), units.BytesSize(float64(u.CapacityBytes)))
	return nil
}
