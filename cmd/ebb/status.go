package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
)

const statusLong = `status shows the state of ebb: how many agents are ready, their versions and modes, and
whether the controller has a leader. Below that it lists the nodes whose agent is not ready,
paused or degraded (a part of it does not work), and those that do not answer.

` + agentRights + `
For the controller it also needs the right to list Leases there. Without that right, the leader
is shown as unknown.

It also shows who else collects: from which threshold kubelets remove images, which needs the
right to get nodes/proxy, and whether a kube-controller-manager that runs as a pod collects
objects, which needs the right to list pods in kube-system. Otherwise that is unknown.

It changes nothing. With --wait it asks every two seconds until all agents are ready. It ends
at once if you lack a right. It does not know which pods are still to be replaced: after an
upgrade, wait with "kubectl rollout status" first.

A finding is an agent that is not ready, paused or degraded, a controller that is paused or of
which no pod is ready, and a kube-controller-manager that a storage version migration can end.

` + exitTable

const statusExamples = `  # the state of agents and controller
  ebb status

  # wait until all agents are ready
  ebb status --wait --wait-timeout 10m

  # on a node, only the agent there
  ebb status --socket /run/ebb/agent.sock

  # for scripts: the nodes that are paused
  ebb status -o json | jq -r '.nodes[] | select(.paused).node'`

// now is the desk's clock. Tests replace it.
var now = time.Now

// lookAgain is the pause between two requests of --wait.
const lookAgain = 2 * time.Second

func statusCommand(stdout io.Writer) *cobra.Command {
	a := agentAccess{access: access{outputs: allOutputs}}
	var wait bool
	var limit time.Duration
	cmd := &cobra.Command{
		Use: "status", Short: "Show the state of agents and controller", Long: statusLong, Example: statusExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.awaitStatus(cmd.Context(), wait, limit)
			if err != nil {
				return err
			}
			if a.socket == "" {
				if r.Others, err = a.others(cmd.Context(), r.Nodes); err != nil {
					return err
				}
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
	cmd.Flags().DurationVar(&limit, "wait-timeout", 5*time.Minute, "wait at most this long")
	return cmd
}

// awaitStatus asks once or, with wait, until all agents are ready or limit is over.
func (a *agentAccess) awaitStatus(ctx context.Context, wait bool, limit time.Duration) (show.StatusReport, error) {
	d, err := a.connect()
	if err != nil {
		return show.StatusReport{}, err // that does not change by waiting
	}
	d.Close()
	end := time.Now().Add(limit)
	for {
		r, err := a.status(ctx)
		done := err == nil && len(r.Nodes) > 0 && r.Ready() == len(r.Nodes) || errors.Is(err, kube.ErrForbidden) || slices.ContainsFunc(r.Nodes, forbidden)
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

// forbidden reports whether the user may not ask an agent. Waiting does not change that.
func forbidden(n show.Node[page.Status]) bool { return errors.Is(n.Err, desk.ErrForbidden) }

func (a *agentAccess) status(ctx context.Context) (r show.StatusReport, err error) {
	results, err := askAgents(ctx, a, getPage[page.Status]("/status"))
	r = show.StatusReport{Time: now(), Nodes: nodesOf(results)}
	none := errors.Is(err, desk.ErrNoAgents) && len(a.nodes) == 0
	if a.socket != "" || err != nil && !none {
		return r, err
	}
	var unread error
	r.Controller, unread = a.controller(ctx)
	if none && unread == nil && r.Controller.Pods == 0 {
		return r, err
	}
	return r, unread
}

// getPage returns a function that asks an agent for a page.
func getPage[P any](path string) func(context.Context, *desk.Client) (P, error) {
	return func(ctx context.Context, c *desk.Client) (p P, err error) {
		err = c.Ask(ctx, http.MethodGet, path, nil, &p)
		return p, err
	}
}

// controller reads what the API server has of the controller.
func (a *agentAccess) controller(ctx context.Context) (*show.Controller, error) {
	d, err := a.connect()
	if err != nil {
		return nil, err
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	all, err := d.Controllers(ctx)
	c := &show.Controller{Pods: len(all)}
	if err != nil {
		c.Unknown = []string{err.Error()}
	}
	for _, instance := range all {
		if instance.Ready {
			c.Ready++
		}
		if instance.Leads {
			c.Leader, c.Version, c.Renewed = instance.Pod, instance.Version, instance.Renewed
			c.Halted, c.Mode = instance.Halted, instance.Mode
		}
	}
	return c, nil
}

// api returns a client of the API server. The caller must close it.
func (a *agentAccess) api() (*kube.Client, error) {
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	return kube.New(config, kube.Options{})
}
