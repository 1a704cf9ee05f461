package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
)

const nodesLong = `nodes shows how full each node is, and how much could be freed. Each node has a line with the
filesystem that is closest to its threshold. The line shows how full it is, and when it
will be full at the rate of the last minutes. It also has these figures:

  RECLAIMABLE  what removing all unused images would free
  LAST RUN     when the agent last removed something, with what that freed (FREED)
  RE-PULLS     how many images came back within a day of their removal

The nodes that are fullest against their threshold come first.

` + agentRights + ` It changes nothing.

` + exitTable

const nodesExamples = `  # the nodes, those close to their thresholds first
  ebb nodes

  # two nodes
  ebb nodes --node worker-1,worker-2

  # for scripts: nodes with more than 20 GiB to reclaim
  ebb nodes -o json | jq -r '.nodes[] | select(.images.reclaimable.bytes > 20*1024*1024*1024).node'`

func nodesCommand(stdout io.Writer) *cobra.Command {
	a := agentAccess{access: access{outputs: allOutputs}}
	cmd := &cobra.Command{
		Use: "nodes", Short: "Show how full each node is, and how much could be freed", Long: nodesLong, Example: nodesExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			nodes, err := askNodes(cmd.Context(), &a, getPage[page.Status]("/status"))
			if err != nil {
				return err
			}
			show.ByPressure(nodes)
			return writeNodes(&a, stdout, nodes, answerOf(nodes, func(w io.Writer, v show.View) error { return show.Nodes(w, v, nodes) },
				func() []string { return show.NodeNames(nodes) }), false)
		},
	}
	a.flags(cmd)
	return cmd
}
