package main

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
)

const planLong = `plan shows which images would go, in their order, and what each one frees. It also shows how
many images stay, and why. It removes nothing.

Without an amount, it shows what the agent would do now, by its thresholds. --free and --to
set an amount instead. --config shows what the agent would do now with that configuration.

If the amount cannot be reached, it shows how much can be freed, and what holds the rest.
That is a finding.

` + agentRights + `

` + exitTable

const planExamples = `  # what would go now
  ebb plan --node worker-1

  # to get 20 GiB more; to get down to 60 %; to get 500000 inodes more
  ebb plan --node worker-1 --free 20Gi
  ebb plan --node worker-1 --to 60%
  ebb plan --node worker-1 --free 500k --inodes

  # before a change: with another configuration, and with all images that stay
  ebb plan --node worker-1 --config new.yaml --keep`

// longestConfig bounds a configuration file: an agent takes no more.
const longestConfig = 1 << 20

// amountFlags say how much to free.
type amountFlags struct {
	free, to string
	inodes   bool
}

func (f *amountFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.free, "free", "", "amount to free beyond what is available now, for example 20Gi")
	cmd.Flags().StringVar(&f.to, "to", "", "how full the disk may still be afterwards, for example 60%")
	cmd.Flags().BoolVar(&f.inodes, "inodes", false, "the amount counts inodes, not bytes")
	cmd.MarkFlagsMutuallyExclusive("free", "to")
}

// request returns what an agent is asked. any reports whether an amount was given.
func (f *amountFlags) request(cmd *cobra.Command) (q page.PlanRequest, any bool, err error) {
	switch {
	case cmd.Flags().Changed("free"):
		amount, err := show.ParseAmount(f.free)
		if err != nil {
			return q, true, usagef("--free: %w", err)
		}
		if q.FreeBytes = amount; f.inodes {
			q.FreeBytes, q.FreeInodes = 0, amount
		}
		return q, true, nil
	case cmd.Flags().Changed("to"):
		percent, err := show.ParsePercent(f.to)
		if err != nil {
			return q, true, usagef("--to: %w", err)
		}
		if q.ToPercent = &percent; f.inodes {
			q.ToPercent, q.ToInodesPercent = nil, &percent
		}
		return q, true, nil
	case f.inodes:
		return q, false, usagef("--inodes: say how many, with --free or --to")
	}
	return q, false, nil
}

func planCommand(stdout io.Writer) *cobra.Command {
	a := agentAccess{access: access{outputs: allOutputs}}
	var amount amountFlags
	var file string
	var keep bool
	cmd := &cobra.Command{
		Use: "plan", Short: "Show which images would go, and what that frees", Long: planLong, Example: planExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, _, err := amount.request(cmd)
			if err == nil && file != "" {
				q.Config, err = planConfig(file, cmd.InOrStdin())
			}
			if err != nil {
				return err
			}
			nodes, err := askNodes(cmd.Context(), &a, askPlan(q))
			if err != nil {
				return err
			}
			return writeNodes(&a, stdout, nodes, answerOf(nodes, func(w io.Writer, v show.View) error { return show.Plans(w, v, nodes, keep) },
				func() []string { return show.PlanNames(nodes) }), show.Unmet(nodes) > 0)
		},
	}
	a.flags(cmd)
	amount.flags(cmd)
	cmd.Flags().StringVar(&file, "config", "", "plan with this configuration file of the agent, or - for standard input")
	cmd.Flags().BoolVar(&keep, "keep", false, "list all images that stay, not only their number by reason")
	for _, other := range []string{"free", "to", "inodes"} {
		cmd.MarkFlagsMutuallyExclusive("config", other)
	}
	return cmd
}

func askPlan(q page.PlanRequest) func(context.Context, *desk.Client) (page.Plan, error) {
	return func(ctx context.Context, c *desk.Client) (p page.Plan, err error) {
		err = c.Ask(ctx, http.MethodPost, "/plan", q, &p)
		return p, err
	}
}

// planConfig reads a configuration file, or standard input if the name is "-". The agent validates
// it.
func planConfig(name string, stdin io.Reader) (string, error) {
	data, err := readConfig(name, stdin)
	switch {
	case err != nil:
		return "", fmt.Errorf("--config: %w", err)
	case len(data) > longestConfig:
		return "", usagef("--config: %s is longer than %d KiB", name, longestConfig>>10)
	case len(data) == 0:
		return "", usagef("--config: %s is empty", name)
	}
	return string(data), nil
}
