package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
)

const reclaimLong = `reclaim removes images now. It shows the plan, asks on the terminal, and has the agent carry
out exactly that plan. If the plan has changed meanwhile, nothing is removed. On one node it
then shows the new plan and asks again; with --yes it ends with exit code 1. Of several
nodes, it leaves that one out.

The agent's protections, its order and its hourly limit apply as always. An agent in mode
observe, or one that is paused, refuses.

On several nodes, those where most is freed come first: --max-nodes of them, five at the
same time. After the first failure it begins with no other node.

If an agent ends in the middle, the command shows what was removed until then. "ebb
history" shows the rest later. If you interrupt the command, the agent finishes the image
that it is removing, and removes no more.

A finding is an amount that was not reached.

` + agentRights + `

` + exitTable

const reclaimExamples = `  # 20 GiB more on one node; asks first
  ebb reclaim --node worker-1 --free 20Gi

  # down to 60 %, without asking
  ebb reclaim --node worker-1 --to 60% --yes

  # on the three nodes where that frees most
  ebb reclaim --to 60% --max-nodes 3 --yes`

// reclaimer carries out plans that a person has agreed to.
type reclaimer struct {
	agentAccess
	amount   amountFlags
	yes      bool
	most     int // nodes; 0: the named ones
	request  page.PlanRequest
	rest     []show.Run    // of nodes on which nothing is begun
	in       *bufio.Reader // of the terminal
	out, err io.Writer
}

func reclaimCommand(stdout, stderr io.Writer) *cobra.Command {
	r := &reclaimer{out: stdout, err: stderr}
	cmd := &cobra.Command{
		Use: "reclaim", Short: "Remove images now", Long: reclaimLong, Example: reclaimExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := r.check(cmd); err != nil {
				return err
			}
			d, err := r.connect()
			if err != nil {
				return err
			}
			defer d.Close()
			agents, err := d.Agents(cmd.Context())
			if err != nil {
				return err
			}
			if len(agents) > 1 && len(r.nodes) == 0 && r.most == 0 {
				return usagef("%d nodes have an agent: name some with --node, or say with --max-nodes on how many of them", len(agents))
			}
			return r.start(cmd.Context(), agents)
		},
	}
	r.flags(cmd)
	r.amount.flags(cmd)
	cmd.Flags().BoolVar(&r.yes, "yes", false, "remove without asking")
	cmd.Flags().IntVar(&r.most, "max-nodes", 0, "remove on at most this many nodes, those where most is freed; required without --node if several nodes have an agent")
	cmd.MarkFlagsMutuallyExclusive("max-nodes", "socket")
	return cmd
}

// check refuses invalid flags before any agent is asked.
func (r *reclaimer) check(cmd *cobra.Command) (err error) {
	var some bool
	if r.request, some, err = r.amount.request(cmd); err != nil {
		return err
	}
	_, asks := terminal(cmd.InOrStdin())
	r.in = bufio.NewReader(cmd.InOrStdin())
	switch {
	case !some:
		return usagef("say how much: --free 20Gi, or --to 60%%. Thresholds are kept automatically")
	case cmd.Flags().Changed("max-nodes") && r.most < 1:
		return usagef("--max-nodes: %d is below 1", r.most)
	case r.output == "json" && !r.yes:
		return usagef("--output json asks nobody: say --yes")
	case !r.yes && !asks:
		return usagef("there is no terminal to ask on: say --yes if it is to be done anyway, or look first with: ebb plan")
	}
	return nil
}

// candidate is a node, and the plan for it.
type candidate struct {
	agent desk.Agent
	plan  page.Plan
}

func (r *reclaimer) start(ctx context.Context, agents []desk.Agent) error {
	results := desk.Each(ctx, agents, desk.InFlight, r.timeout, askPlan(r.request))
	nodes := nodesOf(results)
	if err := errors.Join(ctx.Err(), someAnswer(nodes)); err != nil {
		return err
	}
	chosen, left := r.choose(results)
	if err := r.showPlans(chosen, nodes); err != nil {
		return err
	}
	if len(chosen) == 0 {
		if left > 0 {
			return errors.New("nothing was removed: no other node has images to remove")
		}
		if r.output == "json" {
			return r.ended(nil)
		}
		r.say("No image goes.\n")
		return outcome(show.Unmet(nodes) > 0, show.Silent(nodes) > 0)
	}
	if agreed, err := r.agreed(ctx, chosen); err != nil || !agreed {
		return err
	}
	if len(chosen) == 1 {
		return r.onOne(ctx, chosen[0])
	}
	return r.onMany(ctx, chosen)
}

// showPlans shows the plans that will be carried out, or all plans if there are none. It also shows
// the nodes that did not answer.
func (r *reclaimer) showPlans(chosen []candidate, all []show.Node[page.Plan]) error {
	if r.output == "json" {
		return nil
	}
	if len(chosen) > 0 {
		silent := all
		all = nil
		for _, c := range chosen {
			all = append(all, show.Node[page.Plan]{Name: c.agent.Node, Page: c.plan})
		}
		for _, n := range silent {
			if n.Err != nil {
				all = append(all, n)
			}
		}
	}
	v := viewOf(r.out)
	v.Full = true // nobody agrees to what is not shown
	return show.Plans(r.out, v, all, false)
}

// agreed asks the person to confirm, unless --yes is set. If the person declines, the error is
// exitError.
func (r *reclaimer) agreed(ctx context.Context, chosen []candidate) (bool, error) {
	if r.yes {
		return true, nil
	}
	where := show.Clean(chosen[0].agent.Node)
	if len(chosen) > 1 {
		where = fmt.Sprintf("%d nodes", len(chosen))
	}
	images := 0
	for _, c := range chosen {
		images += len(c.plan.Remove)
	}
	fmt.Fprintf(r.err, "\nRemove these images (%d) from %s? [y/N] ", images, where)
	var line string
	answered := make(chan error, 1)
	go func() {
		var err error
		line, err = r.in.ReadString('\n')
		answered <- err
	}()
	select {
	case <-ctx.Done(): // the reader ends with the process
		fmt.Fprintln(r.err, "\nNothing was removed.")
		return false, context.Cause(ctx)
	case err := <-answered:
		if err != nil && !errors.Is(err, io.EOF) {
			return false, fmt.Errorf("read the answer: %w", err)
		}
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	fmt.Fprintln(r.err, "Nothing was removed.")
	return false, exitCode(exitError)
}

// say writes for a person. With -o json it writes to standard error, because scripts read standard
// output.
func (r *reclaimer) say(format string, args ...any) {
	w := r.out
	if r.output == "json" {
		w = r.err
	}
	fmt.Fprintf(w, format, args...)
}
