package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
)

const whyLong = `why explains the decision about one image: whether it stays or goes, and every rule in the
order in which the agent applies it. It also shows the image's place among those that may
go, what its removal would free alone and in its turn, and its history.

IMAGE is a reference, a name without a tag, a short name (busybox), an ID, or the first
digits of an ID. If it means several images on a node, the command lists them. Without
--node it asks all nodes, and shows the first five that have the image in full.

` + agentRights + ` It changes nothing.

` + exitTable

const whyExamples = `  # on all nodes that have the image
  ebb why busybox

  # on one node
  ebb why docker.io/library/postgres:15 --node worker-1

  # by its ID
  ebb why 0a1b2c3d4e5f --node worker-1`

func whyCommand(stdout io.Writer) *cobra.Command {
	a := agentAccess{access: access{outputs: allOutputs}}
	cmd := &cobra.Command{
		Use: "why IMAGE", Short: "Explain the decision about one image: reasons, sizes, history", Long: whyLong, Example: whyExamples, Args: cobra.ExactArgs(1),
		ValidArgsFunction: completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			results, err := askAgents(cmd.Context(), &a, getPage[page.Why]("/why?image="+url.QueryEscape(args[0])))
			if err != nil {
				return err
			}
			r := whyReport(args[0], results)
			switch answer := someAnswer(r.Nodes); {
			case len(r.Nodes) == 0 && len(r.Many) == 0:
				return fmt.Errorf("no image %q on any of the nodes that were asked (%d)", show.Clean(args[0]), len(r.Not))
			case answer != nil && len(r.Not) == 0 && len(r.Many) == 0:
				return answer
			}
			if err := a.write(stdout, answer{
				text:     func(w io.Writer, v show.View) error { return show.Why(w, v, r) },
				document: r.Document, names: r.Names,
			}); err != nil {
				return err
			}
			if len(r.Many) > 0 && show.Silent(r.Nodes) == len(r.Nodes) {
				return errors.New("the name is that of several images: ask for one of them")
			}
			return outcome(false, show.Silent(r.Nodes) > 0 || len(r.Many) > 0)
		},
	}
	a.flags(cmd)
	return cmd
}

// whyReport separates nodes without the image, and nodes where the name is ambiguous, from the
// rest: those that have it or did not answer.
func whyReport(name string, results []desk.Result[page.Why]) show.WhyReport {
	r := show.WhyReport{Name: name, Many: map[string]string{}}
	for _, n := range nodesOf(results) {
		var refused *desk.Refused
		switch errors.As(n.Err, &refused); {
		case refused != nil && refused.Code == http.StatusNotFound:
			r.Not = append(r.Not, n.Name)
		case refused != nil && refused.Code == http.StatusConflict:
			r.Many[n.Name] = refused.Text
		default:
			r.Nodes = append(r.Nodes, n)
		}
	}
	return r
}

// completeImages offers the images of the first nodes that answer in time.
func completeImages(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, p := range completion(cmd, mostCompleting, getPage[page.Images]("/images")) {
		names = append(names, show.Completions(p, word)...)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completesNodes makes shells complete --node.
func completesNodes(cmd *cobra.Command) {
	if err := cmd.RegisterFlagCompletionFunc("node", completeNodes); err != nil {
		panic(err)
	}
}

// completeNodes offers the nodes that have an agent.
func completeNodes(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	names := completion(cmd, mostNodes, func(_ context.Context, c *desk.Client) (string, error) { return c.Agent.Node, nil })
	return names, cobra.ShellCompDirectiveNoFileComp
}
