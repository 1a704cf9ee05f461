package main

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
)

const pauseLong = `pause stops the agents' removals for a time, whatever their thresholds say. It takes effect
at once, on all nodes or on those that you name with --node. Paused agents remove neither
images nor dead containers. They keep recording image use.

A pause lasts over restarts of the agent. It ends by itself, or with "ebb resume". Another
pause replaces it. It reaches the agents that answer now. The ConfigMap ebb-pause stops those of
absent and new nodes as well (docs/rollout.md). "ebb control pause" pauses the controller.

` + agentRights + `

` + exitTable

const pauseExamples = `  # all nodes, for the two hours of an upgrade
  ebb pause --for 2h --reason "kernel upgrade"

  # one node
  ebb pause --node worker-1`

// usualPause is how long a pause is without --for.
const usualPause = 2 * time.Hour

func pauseCommand(stdout io.Writer) *cobra.Command {
	a := agentAccess{access: access{outputs: allOutputs}}
	var length time.Duration
	var q page.PauseRequest
	cmd := &cobra.Command{
		Use: "pause", Short: "Stop removals for a time", Long: pauseLong, Example: pauseExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if q.ForSeconds, err = show.PauseSeconds(length); err != nil {
				return usagef("--for: %w", err)
			}
			return changeAgents(cmd.Context(), &a, stdout, "/pause", q, show.Pauses)
		},
	}
	a.flags(cmd)
	cmd.Flags().DurationVar(&length, "for", usualPause, "how long the pause lasts, at most 720h")
	cmd.Flags().StringVar(&q.Reason, "reason", "", "reason, shown by \"ebb status\"")
	return cmd
}

const resumeLong = `resume ends a pause, on all nodes or on those that you name with --node. It changes nothing
on nodes that are not paused. It does not end a pause by the ConfigMap ebb-pause: delete that.

` + agentRights + `

` + exitTable

const resumeExamples = `  # all nodes
  ebb resume

  # one node
  ebb resume --node worker-1`

func resumeCommand(stdout io.Writer) *cobra.Command {
	a := agentAccess{access: access{outputs: allOutputs}}
	cmd := &cobra.Command{
		Use: "resume", Short: "End a pause", Long: resumeLong, Example: resumeExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return changeAgents(cmd.Context(), &a, stdout, "/resume", nil, show.Resumes)
		},
	}
	a.flags(cmd)
	return cmd
}

// changeAgents posts a request to all selected agents, and writes their answers. The request must
// take only a moment.
func changeAgents[P any](ctx context.Context, a *agentAccess, stdout io.Writer, path string, q any, text func(io.Writer, show.View, []show.Node[P]) error) error {
	nodes, err := askNodes(ctx, a, func(ctx context.Context, c *desk.Client) (p P, err error) {
		err = c.Ask(ctx, http.MethodPost, path, q, &p)
		return p, err
	})
	if err != nil {
		return err
	}
	return writeNodes(a, stdout, nodes, answerOf(nodes, func(w io.Writer, v show.View) error { return text(w, v, nodes) },
		func() []string { return show.NodeNames(nodes) }), false)
}
