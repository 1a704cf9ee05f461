package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
)

const topLong = `top watches one node until you press q or ctrl-c. It shows the disks with their thresholds,
the containers that write most, and the images that go next. It asks the agent for disks and
writers every two seconds, and for images every twenty seconds.

It needs a terminal. Without a terminal, use "ebb nodes". Writers are shown only if the
agent's configuration sets writers.top.

` + agentRights + ` It changes nothing.

` + exitTable

const topExamples = `  # one node
  ebb top --node worker-1

  # on a node
  ebb top --socket /run/ebb/agent.sock`

const (
	topEvery      = 2 * time.Second
	topImagesLook = 10 // images are read once in so many looks
)

func topCommand(stdout io.Writer) *cobra.Command {
	a := agentAccess{access: access{outputs: []string{"text"}}}
	cmd := &cobra.Command{
		Use: "top", Short: "Watch a node: disks, writers, next images to go", Long: topLong, Example: topExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out, written := terminal(stdout)
			in, read := terminal(cmd.InOrStdin())
			if !written || !read {
				return usagef("top is for a terminal: without one, use: ebb nodes")
			}
			d, err := a.connect()
			if err != nil {
				return err
			}
			defer d.Close()
			agents, err := d.Agents(cmd.Context())
			if err != nil {
				return err
			}
			if len(agents) != 1 {
				return usagef("%d nodes have an agent: name one with --node", len(agents))
			}
			client := agents[0].Client(cmd.Context())
			defer client.Close()
			t := &top{access: &a, client: client, out: out}
			if err := t.look(cmd.Context()); err != nil {
				return err // before the terminal is switched to raw mode
			}
			return t.watch(cmd.Context(), in)
		},
	}
	a.flags(cmd)
	return cmd
}

// top is the state of ebb top.
type top struct {
	access *agentAccess
	client *desk.Client
	out    *os.File
	screen show.Screen
	looks  int
}

// look asks the agent. If a request fails, the screen keeps what it has, and gets the error.
func (t *top) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.access.timeout)
	defer cancel()
	s := t.screen
	s.Node, s.Status, s.Err = t.client.Agent.Node, page.Status{}, nil
	if s.Err = t.client.Ask(ctx, http.MethodGet, "/status", nil, &s.Status); s.Err == nil {
		s.Before, s.Now = s.Now, show.Writers{}
		s.Err = t.client.Ask(ctx, http.MethodGet, "/writers", nil, &s.Now)
	}
	if s.Err == nil && t.looks%topImagesLook == 0 {
		s.Images = page.Images{}
		s.Err = t.client.Ask(ctx, http.MethodGet, "/images", nil, &s.Images)
	}
	if s.Err != nil { // do not mix new data with old data
		t.screen.Node, t.screen.Err = s.Node, s.Err
		return s.Err
	}
	t.looks++
	t.screen = s
	return nil
}

// watch draws until the user quits, and restores the terminal.
func (t *top) watch(ctx context.Context, in *os.File) error {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return err
	}
	defer func() {
		_, _ = io.WriteString(t.out, "\x1b[?25h\x1b[?1049l")
		_ = term.Restore(int(in.Fd()), before)
	}()
	if _, err := io.WriteString(t.out, "\x1b[?1049h\x1b[?25l"); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // until the process ends: a read of a terminal cannot be cancelled
		awaitQuit(in)
		cancel()
	}()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	looked := make(chan struct{}, 1)
	next := time.NewTimer(topEvery)
	defer next.Stop()
	for {
		if err := t.draw(); err != nil {
			return err
		}
		looking := false
		for redraw := false; !redraw; {
			select {
			case <-ctx.Done():
				if looking {
					<-looked
				}
				return nil
			case <-resized:
				redraw = !looking // until a look is done, it owns the screen
			case <-next.C:
				looking = true
				go func() {
					_ = t.look(ctx) // shown on the screen
					looked <- struct{}{}
				}()
			case <-looked:
				redraw = true
				next.Reset(topEvery)
			}
		}
	}
}

// awaitQuit reads until q, ctrl-c or ctrl-d, or the end.
func awaitQuit(in io.Reader) {
	key := make([]byte, 64)
	for {
		n, err := in.Read(key)
		if err != nil || bytes.ContainsAny(key[:n], "qQ\x03\x04") {
			return
		}
	}
}

func (t *top) draw() error {
	width, height, err := term.GetSize(int(t.out.Fd()))
	if err != nil || width < 1 || height < 1 {
		width, height = 80, 24
	}
	v := viewOf(t.out)
	v.Width = width
	var b strings.Builder
	if err := show.Top(&b, v, height, t.screen); err != nil {
		return err
	}
	_, err = io.WriteString(t.out, "\x1b[H"+strings.ReplaceAll(b.String(), "\n", "\x1b[K\r\n")+"\x1b[K\x1b[J")
	return err
}
