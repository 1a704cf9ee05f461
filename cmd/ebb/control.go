package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/desk"
)

const (
	defaultSocket = "/run/ebb/controller.sock"
	// socketWait bounds a request. A pause takes less, although it waits for requests that were
	// sent before.
	socketWait = 40 * time.Second
	// longestAnswer bounds what is read of an answer, in bytes: /types of a large cluster has some
	// hundred KiB.
	longestAnswer = 64 << 20
)

const controlLong = `control asks the running ebb-controller for its state and its decisions, and pauses or
resumes it. Of several controllers the one that holds the Lease leads. It alone decides
and acts, so control asks that one.

Beside a controller it uses the admin socket: if --socket names it, or if it exists. From
any other machine it runs itself in the pod of the leader, as kubectl exec would. That
needs the rights to list pods and Leases, and to exec in ebb's namespace.

"pause", "resume", "confirm-restore" and "confirm-lost" change what the controller does. The
other commands change nothing.

Exit codes: 0 fine, 1 error, 2 wrong usage.`

const controlExamples = `  # the last decisions: action, reason, owner, result
  ebb control decisions

  # why an object still exists
  ebb control explain replicaset/web-1 -n shop

  # stop all requests; continue
  ebb control pause
  ebb control resume

  # beside the controller
  ebb control decisions --socket /run/ebb/controller.sock`

// control asks a controller, over a socket or through its pod.
type control struct {
	to             reach
	socket         string
	stdout, stderr io.Writer
}

func controlCommand(stdout, stderr io.Writer) *cobra.Command {
	c := &control{stdout: stdout, stderr: stderr}
	cmd := &cobra.Command{
		Use: "control", Short: "Ask a running ebb-controller, pause it, resume it", Long: controlLong, Example: controlExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&c.socket, "socket", defaultSocket, "path of the controller's admin socket; used if you give it, or if it exists")
	c.to.flags(flags)
	for _, r := range requests {
		cmd.AddCommand(&cobra.Command{Use: r.name, Short: r.short, Long: r.long, Example: "  ebb control " + r.name, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return c.ask(cmd, r.method, r.path, r.name)
			}})
	}
	cmd.AddCommand(c.explainCommand(), c.collectorsCommand(), c.confirmLostCommand())
	return cmd
}

// ask sends a request over the socket. Without a socket, it runs ebb with args in the leader's pod,
// which sends the request.
func (c *control) ask(cmd *cobra.Command, method, path string, args ...string) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), socketWait)
	defer cancel()
	if _, err := os.Stat(c.socket); err == nil || cmd.Flags().Changed("socket") {
		return c.askSocket(ctx, method, path)
	}
	d, err := c.to.desk()
	if err != nil {
		return fmt.Errorf("no socket %s is here, and no cluster is known: %w", c.socket, err)
	}
	defer d.Close()
	leader, err := d.Leader(ctx)
	if err != nil {
		return err
	}
	// With --socket, the command in the pod uses the socket there. It does not look for the leader
	// again.
	args = append([]string{"control", "--socket=" + c.socket}, args...)
	return runThere(ctx, d, leader.Pod, desk.ControllerContainer, args, c.stdout, c.stderr)
}

// requests are the commands that take no arguments.
var requests = []struct{ name, method, path, short, long string }{
	{"decisions", http.MethodGet, "/decisions", "Show the last decisions of the controller",
		`decisions shows the last 1,024 decisions of the controller as JSON: the action, its reason,
the owner that caused it, and the result. In mode observe they show what the controller
would have done. It changes nothing.`},
	{"cascades", http.MethodGet, "/cascades", "List the owners with the largest cascades, and the slowed ones",
		`cascades lists as JSON the owners whose cascades deleted most objects, the largest first. For
each one it shows how many objects were deleted, how many wait, and when a slowed cascade
continues. It changes nothing.`},
	{"types", http.MethodGet, "/types", "Show which types the controller reads",
		`types shows each type as JSON: whether the controller reads it, and how many objects it has.
For a type that cannot be read it shows since when, and why. It changes nothing.`},
	{"ready", http.MethodGet, "/readyz?verbose", "Show whether the controller works, type by type",
		`ready shows whether the controller works, waits for the Lease, is paused, or has an open
circuit breaker. It also shows the state of each type. It changes nothing.

Exit codes: 0 ready, 1 error, 2 wrong usage, 3 not ready.`},
	{"pause", http.MethodPost, "/control/pause", "Stop all requests of the controller",
		`pause stops the controller that leads. When the command returns, the controller sends no
more requests. The pause lasts until "ebb control resume", also over restarts.`},
	{"resume", http.MethodPost, "/control/resume", "End a pause, and close the circuit breaker",
		`resume ends a pause of the controller that leads, and closes its circuit breaker. Look at
"ebb control decisions" and "ebb control cascades" first.`},
	{"confirm-restore", http.MethodPost, "/control/confirm-restore", "Let Nodes and volumes be collected again after an etcd restore",
		`confirm-restore lets the controller that leads collect Nodes and volumes again. These two
collectors wait since etcd was restored from a backup, also over restarts. "ebb control
resume" does not end that.

First check that the restored objects match the real machines and volumes. A volume whose
claim was made after the backup looks released. A Node that was away at the time of the
backup looks gone.`},
}

func (c *control) collectorsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "collectors", Short: "List the Pods, Jobs and so on that are due", Args: cobra.NoArgs,
		Long: `collectors shows as JSON each collector of Pods, Jobs and so on that is on: its mode, and how
many objects it keeps. It also shows how many of them are due within a time if nothing
changes, and names the first of those. It changes nothing.`,
		Example: "  # before you enforce a collector: what would go today\n  ebb control collectors --within 24h"}
	within := cmd.Flags().Duration("within", 24*time.Hour, "count the objects that are due within this time")
	most := cmd.Flags().Int("limit", 20, "name at most this many objects of each collector, up to 1000")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		path := "/collectors?" + url.Values{"within": {within.String()}, "limit": {fmt.Sprint(*most)}}.Encode()
		return c.ask(cmd, http.MethodGet, path, "collectors", "--within="+within.String(), fmt.Sprintf("--limit=%d", *most))
	}
	return cmd
}

func (c *control) confirmLostCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "confirm-lost [NODE ...]", Short: "List lost Nodes whose Pods stay, or confirm that Nodes are gone",
		Long: `confirm-lost lists as JSON the Nodes that were lost at once with more others than
collectors.pods.maxShare allows. For each Node it shows how many objects stay: Pods in the
collector of Pods, VolumeAttachments and CSINodes in the collector of volumes. They stay
because a mistake is more likely: a person or a program deleted Node objects while the
machines run.

With names, it tells the controller that leads that these Nodes are gone. Their objects then
go as those of any lost Node: after a live read of the Node. If a Node comes back, its
confirmation is forgotten. After a restart of the controller you have to confirm again.

Exit codes: 0 fine, 1 error, or nothing waits for one of the Nodes, 2 wrong usage.`,
		Example: "  # which Nodes wait\n  ebb control confirm-lost\n\n  # the machines of two of them are gone\n  ebb control confirm-lost node-a node-b"}
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if len(names) == 0 {
			return c.ask(cmd, http.MethodGet, "/lost-nodes", "confirm-lost")
		}
		path := "/control/confirm-lost?" + url.Values{"node": names}.Encode()
		return c.ask(cmd, http.MethodPost, path, append([]string{"confirm-lost"}, names...)...)
	}
	return cmd
}

// askSocket sends one request and writes the answer. A status other than 2xx is an error with the
// controller's text. That the controller is not ready is an answer, too.
func (c *control) askSocket(ctx context.Context, method, path string) error {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", c.socket)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, "http://ebb"+path, nil)
	if err != nil {
		return fmt.Errorf("ask the controller: %w", err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("ask the controller at %s, which is beside it and for its user alone: %w", c.socket, err)
	}
	defer resp.Body.Close()
	notReady := resp.StatusCode == http.StatusServiceUnavailable && strings.HasPrefix(path, "/readyz")
	if resp.StatusCode/100 != 2 && !notReady {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		if err != nil {
			return fmt.Errorf("ask the controller: %s: %w", resp.Status, err)
		}
		return fmt.Errorf("the controller says: %s: %s", resp.Status, visible(strings.TrimSpace(string(text))))
	}
	out := &visibleWriter{w: c.stdout}
	_, err = io.Copy(out, io.LimitReader(resp.Body, longestAnswer))
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("read the controller's answer: %w", err)
	}
	return outcome(notReady, false)
}
