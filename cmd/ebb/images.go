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

const imagesLong = `images shows the images of nodes, those first that would go first: when each was last
used and by whom, what goes if it alone goes (OWN), what others need of it as well (SHARED),
how much of it was ever read, and whether it stays, and why. docs/account.md says what the
sizes mean.

` + exitTable

const imagesExamples = `  # of one node
  ebb images --node worker-1

  # of all nodes: what nobody needs, largest first
  ebb images --unused --sort own

  # for scripts
  ebb images --node worker-1 --unused -o name`

func imagesCommand(stdout io.Writer) *cobra.Command {
	a := agentAccess{access: access{outputs: allOutputs}}
	var o show.ImageOptions
	cmd := &cobra.Command{
		Use: "images", Short: "Show the images of nodes: last use, sizes, and what becomes of each", Long: imagesLong, Example: imagesExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Sort != "" && !slices.Contains(show.ImageOrders, o.Sort) {
				return usagef("--sort: %q is none of %s", o.Sort, strings.Join(show.ImageOrders, ", "))
			}
			results, err := askAgents(cmd.Context(), &a, getPage[page.Images]("/images"))
			nodes := nodesOf(results)
			if err == nil {
				err = someAnswer(nodes)
			}
			if err != nil {
				return err
			}
			if err := a.write(stdout, answer{
				text:     func(w io.Writer, v show.View) error { return show.Images(w, v, nodes, o) },
				document: func() (any, error) { return show.NewDocument(show.ChooseImages(nodes, o)) },
				names:    func() []string { return show.ImageNames(nodes, o) },
			}); err != nil {
				return err
			}
			return outcome(false, show.Silent(nodes) > 0)
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&o.Sort, "sort", "", "used, size, own, name or freed; without it those that go first are first")
	cmd.Flags().BoolVar(&o.Unused, "unused", false, "only images that nothing protects")
	program.Choices(cmd, "sort", show.ImageOrders...)
	return cmd
}
