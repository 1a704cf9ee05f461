package main

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/agent/show"
)

const imagesLong = `images lists the images of nodes, in the order in which they would go. Each image has these
figures:

  LAST USED, BY    when it was last used, and by which pod or container
  OWN              what is freed if this image alone is removed
  SHARED           what other images, containers or leases need, too
  READ             how much of it containers ever read
  VERDICT, REASON  whether it stays or goes, and why

docs/account.md explains the sizes.

` + agentRights + ` It changes nothing.

` + exitTable

const imagesExamples = `  # the images of one node
  ebb images --node worker-1

  # images of all nodes that no rule protects, largest first
  ebb images --unused --sort own

  # for scripts: their names
  ebb images --node worker-1 --unused -o name`

func imagesCommand(stdout io.Writer) *cobra.Command {
	a := agentAccess{access: access{outputs: allOutputs}}
	var o show.ImageOptions
	cmd := &cobra.Command{
		Use: "images", Short: "List images: last use, sizes, verdict", Long: imagesLong, Example: imagesExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Sort != "" && !slices.Contains(show.ImageOrders, o.Sort) {
				return usagef("--sort: %q is none of %s", o.Sort, strings.Join(show.ImageOrders, ", "))
			}
			nodes, err := askNodes(cmd.Context(), &a, getPage[page.Images]("/images"))
			if err != nil {
				return err
			}
			return writeNodes(&a, stdout, nodes, answer{
				text:     func(w io.Writer, v show.View) error { return show.Images(w, v, nodes, o) },
				document: func() (any, error) { return show.NewDocument(show.ChooseImages(nodes, o)) },
				names:    func() []string { return show.ImageNames(nodes, o) },
			}, false)
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&o.Sort, "sort", "", "order: used, size, own, name or freed; without it the order in which they would go")
	cmd.Flags().BoolVar(&o.Unused, "unused", false, "only images that no rule protects")
	program.Choices(cmd, "sort", show.ImageOrders...)
	return cmd
}
