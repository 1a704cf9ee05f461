// Command image makes ebb's container image. See package image.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"text/tabwriter"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/deploy"
	"github.com/ebb-agent/ebb/tools/image"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := root(os.Stdout).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		stop()
		os.Exit(1)
	}
}

func root(stdout io.Writer) *cobra.Command {
	o := image.Options{}
	push := false
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Make ebb's container image",
		Long: `Builds ebb, ebb-agent and ebb-controller, and packs them into an OCI image layout, one
tar file that "ctr -n k8s.io images import" takes. Beside it: the SBOM, and name,
digests and sizes as JSON.`,
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			made, err := image.Make(cmd.Context(), o)
			if err != nil {
				return err
			}
			if err := report(stdout, made, filepath.Join(o.Output, image.ArchiveFile)); err != nil || !push {
				return err
			}
			pinned, err := image.Push(cmd.Context(), o.Output)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(stdout, "pushed %s\n", pinned)
			return err
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "licences PROGRAM…",
		Short: "Print the licences of the modules that Go programs were linked from",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := image.ThirdParties(cmd.Context(), o.Tree, args...)
			if err != nil {
				return err
			}
			_, err = stdout.Write(text)
			return err
		},
	})
	f := cmd.Flags()
	f.StringVar(&o.Tree, "tree", ".", "the clone to build")
	f.StringVar(&o.Output, "output", "bin/image", "directory for "+image.ArchiveFile+", "+image.SBOMFile+" and "+image.MadeFile)
	f.StringVar(&o.Name, "name", image.Repository, "name of the image; without a tag, it is the appVersion of "+deploy.ChartFile)
	f.BoolVar(&push, "push", false, "push it to the registry that its name begins with, with the credentials of docker login")
	f.StringSliceVar(&o.Architectures, "arch", image.Architectures, "which architectures to build for")
	return cmd
}

func report(w io.Writer, made image.Made, archive string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s\t%s\t\n", made.Name, made.Digest)
	for _, p := range made.Images {
		fmt.Fprintf(t, "  %s\t%s\t%s compressed, %s unpacked\n", p.Platform, p.Digest,
			units.HumanSize(float64(p.Compressed)), units.HumanSize(float64(p.Uncompressed)))
	}
	fmt.Fprintf(t, "%s\n", archive)
	return t.Flush()
}
