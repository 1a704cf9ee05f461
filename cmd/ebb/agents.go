package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/agent/show"
	"github.com/ebb-agent/ebb/agent/stdio"
)

// nodeTimeout is the default of --timeout: how long an agent may take to answer.
const nodeTimeout = 10 * time.Second

// agentRights is in the help of all commands that ask agents.
const agentRights = `It needs the rights to list pods and to exec in ebb's namespace. On a node, root can ask the
agent there with --socket instead, without the API server.`

// agentAccess is how node agents are reached: through the API server, or on a node by the
// agent's socket.
type agentAccess struct {
	access
	namespace, socket string
	nodes             []string
	timeout           time.Duration
}

func (a *agentAccess) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	a.access.flags(f)
	f.StringVar(&a.namespace, "ebb-namespace", desk.DefaultNamespace, "namespace of the agents' pods")
	f.StringSliceVar(&a.nodes, "node", nil, "ask only the agents of these nodes")
	f.StringVar(&a.socket, "socket", "", "on a node: ask its agent by this socket (usually "+stdio.DefaultSocket+"), without the API server")
	f.DurationVar(&a.timeout, "timeout", nodeTimeout, "how long to wait for each node")
	program.Choices(cmd, "output", a.choices()...)
	completesNodes(cmd)
	for _, other := range []string{"ebb-namespace", "node", "kubeconfig", "context"} {
		cmd.MarkFlagsMutuallyExclusive("socket", other)
	}
}

// connect returns a desk for the API server, or for the socket. The caller must close it.
func (a *agentAccess) connect() (*desk.Desk, error) {
	o := desk.Options{Namespace: a.namespace, Nodes: a.nodes, Socket: a.socket, Version: program.Version()}
	if err := a.checkOutput(); err != nil {
		return nil, err
	}
	if a.socket == "" {
		var err error
		if o.Config, err = a.config(); err != nil {
			return nil, err
		}
	}
	return desk.New(o)
}

// askAgents asks all selected agents. Each result has an agent's answer, or why there is none. The
// error is not nil if the agents cannot be listed, or if ctx has ended.
func askAgents[T any](ctx context.Context, a *agentAccess, ask func(context.Context, *desk.Client) (T, error)) ([]desk.Result[T], error) {
	d, err := a.connect()
	if err != nil {
		return nil, err
	}
	defer d.Close()
	agents, err := d.Agents(ctx)
	if err != nil {
		return nil, err
	}
	return desk.Each(ctx, agents, desk.InFlight, a.timeout, ask), ctx.Err()
}

// askNodes does so in the form that package show takes. It is also an error if none of the agents answers.
func askNodes[P any](ctx context.Context, a *agentAccess, ask func(context.Context, *desk.Client) (P, error)) ([]show.Node[P], error) {
	results, err := askAgents(ctx, a, ask)
	nodes := nodesOf(results)
	if err == nil {
		err = someAnswer(nodes)
	}
	return nodes, err
}
