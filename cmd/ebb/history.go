package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
)

const historyLong = `history lists what the agents removed, and what they refused to remove, newest first. Each
entry has the time, the object, the outcome, the space that was freed and the reason. If a
person asked for the removal, the entry names the person.

` + agentRights + ` It changes nothing.

` + exitTable

const historyExamples = `  # the last day of all nodes
  ebb history --since 24h

  # all entries of an image on one node
  ebb history --node worker-1 --image postgres --limit 1000`

// historyPage is how many entries one request asks for at most. mostPages bounds the requests to a
// node.
const (
	historyPage = 500
	mostPages   = 1000
)

func historyCommand(stdout io.Writer) *cobra.Command {
	a := agentAccess{access: access{outputs: allOutputs}}
	var f show.HistoryFilter
	cmd := &cobra.Command{
		Use: "history", Short: "List removals and refusals", Long: historyLong, Example: historyExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Since < 0 || f.Limit < 1 {
				return usagef("--since must not be below 0, and --limit not below 1")
			}
			nodes, err := askNodes(cmd.Context(), &a, func(ctx context.Context, c *desk.Client) (page.History, error) { return readHistory(ctx, c, f) })
			if err != nil {
				return err
			}
			return writeNodes(&a, stdout, nodes, answerOf(nodes, func(w io.Writer, v show.View) error { return show.History(w, v, nodes) },
				func() []string { return show.HistoryNames(nodes) }), false)
		},
	}
	a.flags(cmd)
	cmd.Flags().DurationVar(&f.Since, "since", 0, "only entries that are not older, for example 24h")
	cmd.Flags().StringVar(&f.Image, "image", "", "only entries with this in the name or ID")
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "at most this many entries of each node")
	return cmd
}

// readHistory reads pages until it has all entries that f chooses, or f.Limit of them.
func readHistory(ctx context.Context, c *desk.Client, f show.HistoryFilter) (all page.History, err error) {
	all.Entries = []page.HistoryEntry{}
	most := historyPage
	if f.Image == "" {
		most = min(most, f.Limit)
	}
	query := url.Values{"limit": {fmt.Sprint(most)}}
	for range mostPages {
		var p page.History
		if err := c.Ask(ctx, http.MethodGet, "/history?"+query.Encode(), nil, &p); err != nil {
			return all, err
		}
		if all.Time.IsZero() {
			if all.Time = p.Time; p.Time.IsZero() { // the agent is older than this field
				all.Time = now()
			}
		}
		for _, e := range p.Entries {
			switch {
			case f.Past(all.Time, e):
				return all, nil
			case !f.Matches(e):
				continue
			}
			if all.Entries = append(all.Entries, e); len(all.Entries) == f.Limit {
				return all, nil
			}
		}
		if p.Next == "" {
			return all, nil
		}
		query.Set("before", p.Next)
	}
	return all, nil
}
