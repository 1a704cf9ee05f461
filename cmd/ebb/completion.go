package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/stdio"
)

const (
	// completionWait bounds a completion: a person has pressed a key, and waits.
	completionWait = 2 * time.Second
	// mostCompleting is how many nodes a completion asks for images.
	mostCompleting = 3
	mostNodes      = 10_000
)

// completion asks the agents that a command line selects, but only the first most of them. It drops
// errors, because a shell has no place for them.
func completion[T any](cmd *cobra.Command, most int, ask func(context.Context, *desk.Client) (T, error)) (values []T) {
	ctx, cancel := context.WithTimeout(context.Background(), completionWait)
	defer cancel()
	a := agentAccess{access: access{outputs: allOutputs, output: "text"}, timeout: completionWait}
	flag := func(name string) string {
		if f := cmd.Flag(name); f != nil {
			return f.Value.String()
		}
		return ""
	}
	a.kubeconfig, a.context, a.namespace, a.socket = flag("kubeconfig"), flag("context"), flag("ebb-namespace"), flag("socket")
	a.nodes, _ = cmd.Flags().GetStringSlice("node") // without such a flag, all nodes are meant
	if _, err := os.Stat(stdio.DefaultSocket); err == nil && a.socket == "" && len(a.nodes) == 0 {
		a.socket = stdio.DefaultSocket
	}
	d, err := a.connect()
	if err != nil {
		return nil
	}
	defer d.Close()
	agents, err := d.Agents(ctx)
	if err != nil {
		return nil
	}
	for _, r := range desk.Each(ctx, agents[:min(len(agents), most)], desk.InFlight, completionWait, ask) {
		if r.Err == nil {
			values = append(values, r.Value)
		}
	}
	return values
}
