package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
)

const nodesLong = `nodes shows a line for each node, the fullest against its threshold first: how full its
fullest filesystem is and when it will be full, what removing all unused images would free,
when the agent removed something last, and how many images came back within a day of that.

` + exitTable

const nodesExamples = `  # which nodes are near their thresholds?
  ebb nodes

  # these two
  ebb nodes --node worker-1,worker-2

  # for scripts: nodes with more than 20 GiB to reclaim
  ebb nodes -o json | jq -r '.nodes[] | select(.images.reclaimable.bytes > 20*1024*1024*1024).node'`

func nodesCommand(stdout io.Writer) *cobra.Command {
	a := agentAccess{access: access{outputs: allOutputs}}
	cmd := &cobra.Command{
		Use: "nodes", Short: "Show how full the nodes are, and what could be freed", Long: nodesLong, Example: nodesExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			results, err := askAgents(cmd.Context(), &a, getPage[page.Status]("/status"))
			nodes := nodesOf(results)
			if err == nil {
				err = someAnswer(nodes)
			}
			if err != nil {
				return err
			}
			show.ByPressure(nodes)
			if err := a.write(stdout, answerOf(nodes, func(w io.Writer, v show.View) error { return show.Nodes(w, v, nodes) },
				func() []string { return show.NodeNames(nodes) })); err != nil {
				return err
			}
			return outcome(false, show.Silent(nodes) > 0)
		},
	}
	a.flags(cmd)
	return cmd
}
