package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
)

const duLong = `du shows where the space of nodes went: images, by what each has for itself and what they
share; what only containers and leases hold, and what nobody does; logs by pod; deleted files
that somebody has open. Writable layers and emptyDirs are what the kubelet counts: the API
server is asked for that, which takes the right to get nodes/proxy.

The first five nodes are shown in full. docs/account.md says what the sizes mean.

` + exitTable

const duExamples = `  # one node
  ebb du --node worker-1

  # for scripts: what nothing leads to, on each node
  ebb du -o json | jq -r '.nodes[] | .node + " " + ([.totals.nobody[].bytes] | add // 0 | tostring)'`

func duCommand(stdout io.Writer) *cobra.Command {
	a := agentAccess{access: access{outputs: allOutputs}}
	cmd := &cobra.Command{
		Use: "du", Short: "Show where the space of nodes went", Long: duLong, Example: duExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			nodes, err := a.usage(cmd.Context())
			if err == nil {
				err = someAnswer(nodes)
			}
			if err != nil {
				return err
			}
			if err := a.write(stdout, answerOf(nodes, func(w io.Writer, v show.View) error { return show.Du(w, v, nodes) },
				func() []string { return show.DuNames(nodes) })); err != nil {
				return err
			}
			return outcome(false, show.Silent(nodes) > 0)
		},
	}
	a.flags(cmd)
	return cmd
}

// usage asks agents and, beside them, the kubelets.
func (a *agentAccess) usage(ctx context.Context) ([]show.Node[show.Usage], error) {
	stats := &kubeletStats{}
	if a.socket == "" {
		if err := a.checkOutput(); err != nil {
			return nil, err
		}
		api, err := a.api()
		if err != nil {
			return nil, err
		}
		defer api.Close()
		stats.api = api
	}
	results, err := askAgents(ctx, a, func(ctx context.Context, c *desk.Client) (u show.Usage, err error) {
		asked := make(chan struct{})
		go func() {
			u.Pods, u.PodsUnknown = stats.of(ctx, c.Agent.Node)
			close(asked)
		}()
		var p page.Usage
		err = c.Ask(ctx, http.MethodGet, "/du", nil, &p)
		<-asked
		u.Usage = p
		return u, err
	})
	return nodesOf(results), err
}

// kubeletStats is what kubelets say of pods, through the API server.
type kubeletStats struct {
	api *kube.Client // nil: on a node

	mu        sync.Mutex
	forbidden string // once the API server said so: it would of each node
}

func (k *kubeletStats) of(ctx context.Context, node string) (pods []show.PodUsage, unknown string) {
	if k.api == nil {
		return nil, "the kubelet counts these; with --socket it is not asked"
	}
	k.mu.Lock()
	forbidden := k.forbidden
	k.mu.Unlock()
	if forbidden != "" {
		return nil, forbidden
	}
	var s show.Summary
	err := k.api.Send(ctx, http.MethodGet, "/api/v1/nodes/"+url.PathEscape(node)+"/proxy/stats/summary", nil, nil, &s)
	switch {
	case errors.Is(err, kube.ErrForbidden):
		k.mu.Lock()
		defer k.mu.Unlock()
		k.forbidden = "the kubelet counts these; that needs get on nodes/proxy"
		return nil, k.forbidden
	case err != nil:
		return nil, err.Error()
	}
	return s.Usage(), ""
}
