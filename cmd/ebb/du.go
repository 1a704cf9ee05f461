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

const duLong = `du shows what takes the space of nodes:

  - images, with the part that each one owns and the part that it shares
  - content that only containers and leases hold, and content without any holder
  - logs, writable layers and emptyDirs, by pod
  - deleted files that a process still has open

The kubelet counts writable layers and emptyDirs. du asks it through the API server, which
needs the right to get nodes/proxy. Without that right, or with --socket, these sizes are
unknown.

It shows the first five nodes in full. docs/account.md explains the sizes.

` + agentRights + ` It changes nothing.

` + exitTable

const duExamples = `  # one node
  ebb du --node worker-1

  # for scripts: bytes without any holder, on each node
  ebb du -o json | jq -r '.nodes[] | .node + " " + ([.totals.nobody[].bytes] | add // 0 | tostring)'`

func duCommand(stdout io.Writer) *cobra.Command {
	a := agentAccess{access: access{outputs: allOutputs}}
	cmd := &cobra.Command{
		Use: "du", Short: "Show what takes the space", Long: duLong, Example: duExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			nodes, err := a.usage(cmd.Context())
			if err != nil {
				return err
			}
			return writeNodes(&a, stdout, nodes, answerOf(nodes, func(w io.Writer, v show.View) error { return show.Du(w, v, nodes) },
				func() []string { return show.DuNames(nodes) }), false)
		},
	}
	a.flags(cmd)
	return cmd
}

// usage asks the agents and, at the same time, the kubelets.
func (a *agentAccess) usage(ctx context.Context) ([]show.Node[show.Usage], error) {
	stats := &kubelets{}
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
	return askNodes(ctx, a, func(ctx context.Context, c *desk.Client) (u show.Usage, err error) {
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			if stats.api == nil {
				u.PodsUnknown = "the kubelet counts these; with --socket it is not asked"
				return
			}
			var s show.Summary
			if u.PodsUnknown = stats.get(ctx, c.Agent.Node, "stats/summary", &s); u.PodsUnknown == "" {
				u.Pods = s.Usage()
			}
		}()
		var p page.Usage
		err = c.Ask(ctx, http.MethodGet, "/du", nil, &p)
		<-asked
		u.Usage = p
		return u, err
	})
}

// kubelets asks kubelets through the API server.
type kubelets struct {
	api *kube.Client

	mu        sync.Mutex
	forbidden bool // the API server has refused: it would refuse for each node
}

// get reads a page of a kubelet. unknown is why it could not; "" if it could.
func (k *kubelets) get(ctx context.Context, node, page string, into any) (unknown string) {
	const right = "the kubelet knows; to ask it needs get on nodes/proxy"
	k.mu.Lock()
	forbidden := k.forbidden
	k.mu.Unlock()
	if forbidden {
		return right
	}
	err := k.api.Send(ctx, http.MethodGet, "/api/v1/nodes/"+url.PathEscape(node)+"/proxy/"+page, nil, nil, into)
	switch {
	case errors.Is(err, kube.ErrForbidden):
		k.mu.Lock()
		defer k.mu.Unlock()
		k.forbidden = true
		return right
	case err != nil:
		return err.Error()
	}
	return ""
}
