package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/agent/sysdump"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

const sysdumpLong = `sysdump writes an archive for a problem report. The archive has versions, ebb's pods,
configuration, events and Leases, the logs of controllers and agents, and the state that
each of them reports. CONTENTS.txt lists each file, and what was left out of it. errors.txt
lists what could not be read.

sysdump reads no Secret. It leaves out the values of environment variables, and everything
that looks like a secret: tokens, passwords, PEM blocks. Names of nodes, namespaces, pods
and images stay. Look through the archive before you pass it on.

It changes nothing. It needs the rights to read pods, their logs, events, ConfigMaps,
Leases, DaemonSets and Deployments in ebb's namespace, to exec there, and to get nodes. If
a right is missing, errors.txt names it.

Exit codes:

  0  the archive is complete
  1  there is no archive
  2  wrong usage
  4  something could not be read`

const sysdumpExamples = `  # an archive in this directory, of at most 20 nodes; nodes that are not ready come first
  ebb sysdump

  # one node, to a file
  ebb sysdump --node worker-3 -o report.tar.gz

  # list what is in it
  ebb sysdump -o - | tar tz`

type sysdumpFlags struct {
	to       reach
	file     string
	nodes    []string
	maxNodes int
	lines    int
}

func sysdumpCommand(stdout, stderr io.Writer) *cobra.Command {
	var o sysdumpFlags
	cmd := &cobra.Command{
		Use: "sysdump", Short: "Write an archive for a problem report, without secrets", Long: sysdumpLong, Example: sysdumpExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.maxNodes < 1:
				return usagef("--max-nodes: %d is below 1", o.maxNodes)
			case o.lines < 1:
				return usagef("--log-lines: %d is below 1", o.lines)
			}
			return o.run(cmd.Context(), stdout, stderr)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.file, "output", "o", "", "file to write, or - for standard output; without it ebb-sysdump-TIME.tar.gz in this directory")
	flags.StringSliceVar(&o.nodes, "node", nil, "ask only the agents of these nodes")
	flags.IntVar(&o.maxNodes, "max-nodes", 20, "ask the agents of at most this many nodes")
	flags.IntVar(&o.lines, "log-lines", 20000, "how many of the last lines of each log")
	o.to.flags(flags)
	completesNodes(cmd)
	return cmd
}

func (o *sysdumpFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	config, err := o.to.config()
	if err != nil {
		return err
	}
	d, err := o.to.desk()
	if err != nil {
		return err
	}
	defer d.Close()
	there := &remote{desk: d}
	defer there.close()
	var mu sync.Mutex
	options := sysdump.Options{
		Config: config, Namespace: o.to.namespace, Remote: there, Nodes: o.nodes, MaxNodes: o.maxNodes, LogLines: o.lines, Version: program.Version(),
		Progress: func(what string) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintln(stderr, "ebb: reading", fault.Clean(what))
		},
	}
	var s sysdump.Summary
	write := func(w io.Writer) (err error) {
		s, err = sysdump.Write(ctx, options, w)
		return err
	}
	if o.file == "-" {
		err = write(stdout)
	} else {
		if o.file == "" {
			o.file = "ebb-sysdump-" + time.Now().UTC().Format("20060102T150405Z") + ".tar.gz"
		}
		err = sysdump.WriteFile(o.file, write)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "ebb: %s: %d files, of %d of %d nodes with an agent\n", o.file, s.Files, s.Nodes, s.Of)
	if s.Errors > 0 {
		fmt.Fprintf(stderr, "ebb: warning: %d things could not be had: errors.txt in it has them\n", s.Errors)
		return exitIncomplete
	}
	return nil
}

// Bounds of a page of an agent, and of a command in a pod.
const (
	pageTime    = 30 * time.Second
	commandTime = time.Minute
	maxOutput   = 17 << 20 // bytes; more than a file of the archive may have
)

// remote reaches agents and controllers in their pods, over the desk.
type remote struct {
	desk *desk.Desk

	mu     sync.Mutex
	agents map[string]*agentThere // by node; nil until they were listed
}

// agentThere is one agent. After a request without an answer it is not asked again, because each
// request would take as long.
type agentThere struct {
	client *desk.Client
	failed error
}

func (r *remote) close() {
	for _, a := range r.agents {
		a.client.Close()
	}
}

// agent returns the agent of a node. Its connection lives as long as the ctx of the first call.
func (r *remote) agent(ctx context.Context, node string) (*agentThere, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.agents == nil {
		all, err := r.desk.Agents(ctx)
		if err != nil {
			return nil, err
		}
		r.agents = map[string]*agentThere{}
		for _, a := range all {
			r.agents[a.Node] = &agentThere{client: a.Client(ctx)}
		}
	}
	a := r.agents[node]
	if a == nil {
		return nil, errors.New("no agent is on this node")
	}
	return a, nil
}

// Page implements [sysdump.Remote]. The pages of one node must be asked for one after the other.
func (r *remote) Page(ctx context.Context, node, path string) (data []byte, err error) {
	a, err := r.agent(ctx, node)
	if err != nil {
		return nil, err
	}
	if a.failed != nil {
		return nil, fmt.Errorf("not asked: %w", a.failed)
	}
	ctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	var refused *desk.Refused
	err = a.client.Ask(ctx, http.MethodGet, path, nil, &data)
	switch {
	case errors.As(err, &refused) && path == "/readyz":
		return refused.Body, nil // it is not ready, and says why
	case err != nil && !errors.As(err, &refused) && !errors.Is(err, desk.ErrVersion):
		a.failed = err
	}
	return data, err
}

// Run implements [sysdump.Remote].
func (r *remote) Run(ctx context.Context, pod, container string, command ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	var out, errs bounded
	code, err := r.desk.Run(ctx, pod, container, command, &out, &errs)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, errs.String())
	}
	return out.Bytes(), err
}

// bounded keeps the first maxOutput bytes that are written.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	_, err := b.Buffer.Write(p[:min(len(p), maxOutput-b.Len())])
	return len(p), err
}
