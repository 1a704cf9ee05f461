package main

import (
	"context"
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
	// socketWait is more than a pause takes that waits for what was sent before.
	socketWait = 40 * time.Second
	// longestAnswer bounds what is read: /types of a large cluster has some hundred KiB.
	longestAnswer = 64 << 20
)

const controlLong = `control talks to a running ebb-controller: what it decided and why, and the switches
that act at once. It asks over the admin socket if that is here, or --socket names one.
Else it runs itself in a controller's pod, as kubectl exec would: in the pod that holds
the Lease, for of several controllers one leads, and it alone has decisions and takes
switches. That takes the rights to list pods and leases, and to exec, in ebb's
namespace.

Exit code: 0 fine, 1 error.`

const controlExamples = `  # the last decisions: what, why, because of which owner, how it went
  ebb control decisions

  # why an object is still there
  ebb control explain replicaset/web-1 -n shop

  # send nothing from now on; go on
  ebb control pause
  ebb control resume

  # beside the controller
  ebb control decisions --socket /run/ebb/controller.sock`

// control is where a controller is asked: over a socket, or by way of its pod.
type control struct {
	to             reach
	socket         string
	stdout, stderr io.Writer
}

func controlCommand(stdout, stderr io.Writer) *cobra.Command {
	c := &control{stdout: stdout, stderr: stderr}
	cmd := &cobra.Command{
		Use: "control", Short: "Ask a running ebb-controller, pause it, let it go on", Long: controlLong, Example: controlExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&c.socket, "socket", defaultSocket, "path of its admin socket; if it is given, or there, the controller is asked over it")
	c.to.flags(flags)
	for _, r := range requests {
		cmd.AddCommand(&cobra.Command{Use: r.name, Short: r.short, Long: r.long, Example: "  ebb control " + r.name, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return c.ask(cmd, r.method, r.path, r.name)
			}})
	}
	cmd.AddCommand(c.explainCommand(), c.collectorsCommand())
	return cmd
}

// ask sends a request over the socket, or has a controller's pod run the command of these
// arguments, which does.
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
	// With the socket named, it is asked there, and not by way of the cluster once more.
	args = append([]string{"control", "--socket=" + c.socket}, args...)
	return runThere(ctx, d, leader.Pod, desk.ControllerContainer, args, c.stdout, c.stderr)
}

// requests are the commands that take no arguments.
var requests = []struct{ name, method, path, short, long string }{
	{"decisions", http.MethodGet, "/decisions", "Show what it did last, or would have done, and why",
		`decisions shows the last 1,024 decisions as JSON: what, why, because of which owner, how
it went. In mode observe they are what would have been done.`},
	{"cascades", http.MethodGet, "/cascades", "Show whose deletion took most with it, and which are slowed",
		`cascades shows as JSON the owners whose cascades deleted most, those first: how many objects
went, how many wait for their turn, and when a slowed one goes on.`},
	{"types", http.MethodGet, "/types", "Show which types it reads, and what keeps it from others",
		`types shows each type as JSON: whether it is read, how many objects it has, and if it
cannot be read, since when and why.`},
	{"ready", http.MethodGet, "/readyz?verbose", "Say whether it does its job, type by type",
		`ready says whether the controller does its job, waits for the Lease, is paused, or its circuit breaker open,
and how it stands with each type. Not ready is an error.`},
	{"pause", http.MethodPost, "/control/pause", "Send nothing from now on",
		`pause stops the controller that leads: when it returns, nothing is sent any more. That
lasts until resume, over restarts, too.`},
	{"resume", http.MethodPost, "/control/resume", "Go on, after a pause or the circuit breaker",
		`resume lets the controller that leads go on after a pause, or after the circuit breaker has stopped
it: look at decisions and cascades first.`},
	{"confirm-restore", http.MethodPost, "/control/confirm-restore", "Let nodes and volumes be collected again, after etcd was restored",
		`confirm-restore has the controller that leads go on with Nodes and volumes, which wait since
etcd was restored from a backup: resume does not. That they wait outlives restarts. Look first
whether what came back is what is there: in a backup, a volume whose claim was made since looks
released, and a Node that was away then looks gone.`},
}

func (c *control) collectorsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "collectors", Short: "Show which Pods, Jobs and so on are due to go, and when", Args: cobra.NoArgs,
		Long: `collectors shows as JSON, of each collector that is on beside that of owners: its mode, how many
objects it keeps, how many are due within a time if nothing changes, and the first of those.`,
		Example: "  # what would go today, before a collector is set to enforce\n  ebb control collectors --within 24h"}
	within := cmd.Flags().Duration("within", 24*time.Hour, "what is due until then is counted")
	most := cmd.Flags().Int("limit", 20, "so many objects of each collector are named, at most 1000")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		path := "/collectors?" + url.Values{"within": {within.String()}, "limit": {fmt.Sprint(*most)}}.Encode()
		return c.ask(cmd, http.MethodGet, path, "collectors", "--within="+within.String(), fmt.Sprintf("--limit=%d", *most))
	}
	return cmd
}

// askSocket sends one request and writes the answer. What is not a success is an error with
// the controller's own words.
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
	if resp.StatusCode/100 != 2 {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		if err != nil {
			return fmt.Errorf("ask the controller: %s: %w", resp.Status, err)
		}
		return fmt.Errorf("the controller says: %s: %s", resp.Status, strings.TrimSpace(string(text)))
	}
	if _, err := io.Copy(c.stdout, io.LimitReader(resp.Body, longestAnswer)); err != nil {
		return fmt.Errorf("read the controller's answer: %w", err)
	}
	return nil
}
