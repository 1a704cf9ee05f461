package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const (
	defaultSocket = "/run/ebb/controller.sock"
	// socketWait is more than a pause takes that waits for what was sent before.
	socketWait = 40 * time.Second
	// longestAnswer bounds what is read: /types of a large cluster has some hundred KiB.
	longestAnswer = 64 << 20
)

const controlLong = `control talks to a running ebb-controller over its admin socket: what it decided
and why, and the switches that act at once. The socket is for the controller's own
user, beside it; the image has no shell and no curl, so this is for

  kubectl -n ebb-system exec deploy/ebb-controller -- /usr/bin/ebb control ...

Of several controllers one leads, and it alone has decisions and takes switches; the
holder of the Lease is its name.`

const controlExamples = `  # the last decisions: what, why, because of which owner, how it went
  ebb control decisions

  # why an object is still there
  ebb control explain --api-version apps/v1 --kind ReplicaSet --namespace shop --name web-1

  # send nothing from now on; go on
  ebb control pause
  ebb control resume`

// socket is where a controller is asked.
type socket struct {
	path   string
	stdout io.Writer
}

func controlCommand(stdout io.Writer) *cobra.Command {
	s := &socket{stdout: stdout}
	cmd := &cobra.Command{
		Use: "control", Short: "Ask a running ebb-controller, pause it, let it go on", Long: controlLong, Example: controlExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&s.path, "socket", defaultSocket, "path of its admin socket")
	for _, c := range requests {
		cmd.AddCommand(&cobra.Command{Use: c.name, Short: c.short, Long: c.long, Example: "  ebb control " + c.name, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return s.ask(cmd.Context(), c.method, c.path) }})
	}
	cmd.AddCommand(s.explainCommand(), s.collectorsCommand())
	return cmd
}

// requests are the commands that take no arguments.
var requests = []struct{ name, method, path, short, long string }{
	{"decisions", http.MethodGet, "/decisions", "Show what it did last, or would have done, and why",
		`decisions shows the last 1,024 decisions as JSON: what, why, because of which owner, how
it went. In mode observe they are what would have been done.`},
	{"types", http.MethodGet, "/types", "Show which types it reads, and what keeps it from others",
		`types shows each type as JSON: whether it is read, how many objects it has, and if it
cannot be read, since when and why.`},
	{"ready", http.MethodGet, "/readyz?verbose", "Say whether it does its job, type by type",
		`ready says whether the controller does its job, waits for the Lease, is paused or braked,
and how it stands with each type. Not ready is an error.`},
	{"pause", http.MethodPost, "/control/pause", "Send nothing from now on",
		`pause stops the controller that leads: when it returns, nothing is sent any more. That
lasts until resume, over restarts, too.`},
	{"resume", http.MethodPost, "/control/resume", "Go on, after a pause or the brake",
		`resume lets the controller that leads go on after a pause, or after the brake has stopped
it: look at the decisions first.`},
	{"confirm-restore", http.MethodPost, "/control/confirm-restore", "Let nodes and volumes be collected again, after etcd was restored",
		`confirm-restore has the controller that leads go on with Nodes and volumes, which wait since
etcd was restored from a backup: resume does not. That they wait outlives restarts. Look first
whether what came back is what is there: in a backup, a volume whose claim was made since looks
released, and a Node that was away then looks gone.`},
}

func (s *socket) explainCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "explain", Short: "Say why an object is still there, or what became of it", Args: cobra.NoArgs,
		Long: `explain says as JSON what the controller knows of an object: its owners and what is
known of each, what waits for what, and what will be done.`,
		Example: "  ebb control explain --api-version apps/v1 --kind ReplicaSet --namespace shop --name web-1"}
	names := map[string]string{"api-version": "apiVersion", "kind": "kind", "namespace": "namespace", "name": "name", "uid": "uid"}
	for _, flag := range []string{"api-version", "kind", "namespace", "name", "uid"} {
		cmd.Flags().String(flag, "", "the object's "+names[flag])
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{}
		for flag, name := range names {
			if v := cmd.Flag(flag).Value.String(); v != "" {
				query.Set(name, v)
			}
		}
		return s.ask(cmd.Context(), http.MethodGet, "/explain?"+query.Encode())
	}
	return cmd
}

func (s *socket) collectorsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "collectors", Short: "Show which Pods, Jobs and so on are due to go, and when", Args: cobra.NoArgs,
		Long: `collectors shows as JSON, of each collector that is on beside that of owners: its mode, how many
objects it keeps, how many are due within a time if nothing changes, and the first of those.`,
		Example: "  # what would go today, before a collector is set to enforce\n  ebb control collectors --within 24h"}
	within := cmd.Flags().Duration("within", 24*time.Hour, "what is due until then is counted")
	most := cmd.Flags().Int("most", 20, "so many objects of each collector are named, at most 1000")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return s.ask(cmd.Context(), http.MethodGet, "/collectors?"+url.Values{"within": {within.String()}, "most": {fmt.Sprint(*most)}}.Encode())
	}
	return cmd
}

// ask sends one request and writes the answer. What is not a success is an error with
// the controller's own words.
func (s *socket) ask(ctx context.Context, method, path string) error {
	ctx, cancel := context.WithTimeout(ctx, socketWait)
	defer cancel()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.path)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, "http://ebb"+path, nil)
	if err != nil {
		return fmt.Errorf("ask the controller: %w", err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("ask the controller at %s, which is beside it and for its user alone: %w", s.path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		if err != nil {
			return fmt.Errorf("ask the controller: %s: %w", resp.Status, err)
		}
		return fmt.Errorf("the controller says: %s: %s", resp.Status, strings.TrimSpace(string(text)))
	}
	if _, err := io.Copy(s.stdout, io.LimitReader(resp.Body, longestAnswer)); err != nil {
		return fmt.Errorf("read the controller's answer: %w", err)
	}
	return nil
}
