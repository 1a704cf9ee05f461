package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/agent/show"
	"github.com/ebb-agent/ebb/agent/ui"
)

const uiLong = `ui shows the nodes in a browser, until you press ctrl-c: all nodes by pressure, one node with
its disks, images and last actions, and the story of one image. It prints the address, which
has a token. The pages are for you alone: they are served on 127.0.0.1, and only with that
token. They show what the other commands show, with your rights.

` + agentRights + ` It changes nothing.

` + exitTable

const uiExamples = `  # all nodes
  ebb ui

  # on a node, or with a fixed port for an SSH tunnel
  ebb ui --socket /run/ebb/agent.sock --port 8080`

func uiCommand(stdout io.Writer) *cobra.Command {
	a := agentAccess{access: access{outputs: []string{"text"}}}
	var port uint16
	cmd := &cobra.Command{
		Use: "ui", Short: "Show nodes and images in a browser", Long: uiLong, Example: uiExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.connect()
			if err != nil {
				return err
			}
			defer d.Close()
			source := &pages{agentAccess: &a, desk: d, heavy: make(map[string]heavy)}
			if _, err := source.all(cmd.Context()); err != nil {
				return err // before the user opens a browser
			}
			listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
			if err != nil {
				return fmt.Errorf("serve the pages (--port): %w", err)
			}
			o := ui.Options{Source: source, Host: listener.Addr().String(), Token: rand.Text()}
			u, err := ui.New(o)
			if err != nil {
				return err
			}
			fmt.Fprintf(stdout, "Open http://%s/%s/\nThe pages are there until you press ctrl-c.\n", o.Host, o.Token)
			return program.Serve(cmd.Context(), listener, u.Handler())
		},
	}
	a.flags(cmd)
	cmd.Flags().Uint16Var(&port, "port", 0, "serve on this port of 127.0.0.1; 0: on any that is free")
	return cmd
}

// kept is how long the list of agents, and the heavy answers of each, are cached.
const kept = time.Minute

// pages implements [ui.Source]. It asks agents.
type pages struct {
	*agentAccess
	desk *desk.Desk

	mu     sync.Mutex
	agents []desk.Agent
	listed time.Time
	heavy  map[string]heavy // by node
}

// heavy has the answers for which an agent lists images or walks directories. An answer that fails is
// not asked for again before its time either; the one before it stays.
type heavy struct {
	at      time.Time
	images  page.Images
	usage   page.Usage
	missing []string
}

func (p *pages) all(ctx context.Context) ([]desk.Agent, error) {
	p.mu.Lock()
	agents, listed := p.agents, p.listed
	p.mu.Unlock()
	if !listed.IsZero() && time.Since(listed) < kept {
		return agents, nil
	}
	agents, err := p.desk.Agents(ctx)
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.agents, p.listed = agents, time.Now()
	}
	return agents, err
}

func (p *pages) Nodes(ctx context.Context) ([]show.Node[page.Status], error) {
	agents, err := p.all(ctx)
	if err != nil {
		return nil, err
	}
	return nodesOf(desk.Each(ctx, agents, desk.InFlight, p.timeout, getPage[page.Status]("/status"))), nil
}

// askOne asks the agent of one node.
func askOne[T any](ctx context.Context, p *pages, node string, ask func(context.Context, *desk.Client) (T, error)) (answer T, err error) {
	agents, err := p.all(ctx)
	if err != nil {
		return answer, err
	}
	for _, a := range agents {
		if a.Node == node {
			r := desk.Each(ctx, []desk.Agent{a}, 1, p.timeout, ask)[0]
			if r.Err != nil {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.listed = time.Time{} // the agent may be in another pod by now
			}
			return r.Value, r.Err
		}
	}
	return answer, fmt.Errorf("no agent on a node %q", show.Clean(node))
}

func (p *pages) Node(ctx context.Context, name string) (ui.Node, error) {
	p.mu.Lock()
	before := p.heavy[name]
	p.mu.Unlock()
	return askOne(ctx, p, name, func(ctx context.Context, c *desk.Client) (n ui.Node, err error) {
		if n.Status, err = getPage[page.Status]("/status")(ctx, c); err != nil {
			return n, err
		}
		ask(ctx, c, "/past", &n.Past, &n.Missing)
		ask(ctx, c, "/history", &n.History, &n.Missing)
		ask(ctx, c, "/writers", &n.Writers, &n.Missing)
		h := before
		if time.Since(h.at) >= kept {
			h = heavy{at: time.Now(), images: before.images, usage: before.usage}
			ask(ctx, c, "/images", &h.images, &h.missing)
			ask(ctx, c, "/du", &h.usage, &h.missing)
			if !errors.Is(ctx.Err(), context.Canceled) { // otherwise the browser has left: that is no answer
				p.keep(name, h)
			}
		}
		n.Images, n.Usage, n.Missing = h.images, h.usage, append(n.Missing, h.missing...)
		return n, nil
	})
}

// keep caches the answers of a node, and drops those of nodes that no page has shown for a while.
func (p *pages) keep(node string, h heavy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.heavy, func(_ string, old heavy) bool { return time.Since(old.at) >= kept })
	p.heavy[node] = h
}

// ask replaces a page by an agent's answer. If that fails, it keeps the page, and adds the reason to
// missing.
func ask[P any](ctx context.Context, c *desk.Client, path string, into *P, missing *[]string) {
	answer, err := getPage[P](path)(ctx, c)
	if err != nil {
		*missing = append(*missing, path+": "+err.Error())
		return
	}
	*into = answer
}

func (p *pages) Why(ctx context.Context, node, image string) (page.Why, error) {
	return askOne(ctx, p, node, getPage[page.Why]("/why?image="+url.QueryEscape(image)))
}
