package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
)

const statusLong = `status says how ebb stands: how many agents are ready, in which versions and modes, which
are paused or do without something, whether the controller has a leader, and which nodes do
not answer.

` + exitTable

const statusExamples = `  # is all well?
  ebb status

  # after an upgrade: wait until all agents are ready
  ebb status --wait --wait-timeout 10m

  # on a node, its own agent
  ebb status --socket /run/ebb/agent.sock

  # for scripts: nodes that are paused
  ebb status -o json | jq -r '.nodes[] | select(.paused).node'`

// now is the desk's clock: another one in tests.
var now = time.Now

// lookAgain is the pause between looks of --wait.
const lookAgain = 2 * time.Second

func statusCommand(stdout io.Writer) *cobra.Command {
	a := agentAccess{access: access{outputs: allOutputs}}
	var wait bool
	var limit time.Duration
	cmd := &cobra.Command{
		Use: "status", Short: "Say how the agents and the controller stand", Long: statusLong, Example: statusExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.awaitStatus(cmd.Context(), wait, limit)
			if err != nil {
				return err
			}
			if err := a.write(stdout, answer{
				text:     func(w io.Writer, v show.View) error { return show.Status(w, v, r) },
				document: r.Document,
				names:    func() []string { return show.NodeNames(r.Nodes) },
			}); err != nil {
				return err
			}
			return outcome(r.Findings() > 0, show.Silent(r.Nodes) > 0)
		},
	}
	a.flags(cmd)
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until all agents are ready")
	cmd.Flags().DurationVar(&limit, "wait-timeout", 5*time.Minute, "wait for so long at most")
	return cmd
}

// awaitStatus looks once, or until all are ready or the time is up.
func (a *agentAccess) awaitStatus(ctx context.Context, wait bool, limit time.Duration) (show.StatusReport, error) {
	d, err := a.connect()
	if err != nil {
		return show.StatusReport{}, err // that does not change by waiting
	}
	d.Close()
	end := time.Now().Add(limit)
	for {
		r, err := a.status(ctx)
		done := err == nil && r.Ready() == len(r.Nodes) || errors.Is(err, kube.ErrForbidden)
		if !wait || done || time.Now().Add(lookAgain).After(end) {
			return r, err
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
}

func (a *agentAccess) status(ctx context.Context) (r show.StatusReport, err error) {
	results, err := askAgents(ctx, a, getPage[page.Status]("/status"))
	r = show.StatusReport{Time: now(), Nodes: nodesOf(results)}
	if err == nil && a.socket == "" {
		r.Controller, err = a.controller(ctx)
	}
	return r, err
}

// getPage asks for a page.
func getPage[P any](path string) func(context.Context, *desk.Client) (P, error) {
	return func(ctx context.Context, c *desk.Client) (p P, err error) {
		err = c.Ask(ctx, http.MethodGet, path, nil, &p)
		return p, err
	}
}

// controller looks at what the API server has of the controller.
func (a *agentAccess) controller(ctx context.Context) (*show.Controller, error) {
	api, err := a.api()
	if err != nil {
		return nil, err
	}
	defer api.Close()
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	c := &show.Controller{}
	var pods struct {
		Items []struct {
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	path := "/api/v1/namespaces/" + url.PathEscape(a.namespace) + "/pods"
	if err := api.Send(ctx, http.MethodGet, path, url.Values{"labelSelector": {desk.ControllerSelector}}, nil, &pods); err != nil {
		c.Unknown = append(c.Unknown, err.Error())
	}
	c.Pods = len(pods.Items)
	for _, p := range pods.Items {
		for _, condition := range p.Status.Conditions {
			if condition.Type == "Ready" && condition.Status == "True" {
				c.Ready++
			}
		}
	}
	if c.Pods > 0 || len(c.Unknown) > 0 { // without a controller there is no leader
		a.leader(ctx, api, c)
	}
	return c, nil
}

func (a *agentAccess) leader(ctx context.Context, api *kube.Client, c *show.Controller) {
	var lease struct {
		Spec struct {
			HolderIdentity string
			RenewTime      time.Time
		}
	}
	path := fmt.Sprintf("/apis/coordination.k8s.io/v1/namespaces/%s/leases/%s", url.PathEscape(a.namespace), url.PathEscape(config.Default().LeaderElection.Name))
	if err := api.Send(ctx, http.MethodGet, path, nil, nil, &lease); err != nil {
		c.Unknown = append(c.Unknown, err.Error())
		return
	}
	c.Leader, c.Renewed = lease.Spec.HolderIdentity, lease.Spec.RenewTime
}

// api is the API server itself. The caller must close it.
func (a *agentAccess) api() (*kube.Client, error) {
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	return kube.New(config, kube.Options{})
}
