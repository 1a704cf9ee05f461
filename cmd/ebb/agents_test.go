package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/desk/desktest"
)

// asking is a command that asks agents, as those that are for people do.
func asking(results *[]desk.Result[string]) *cobra.Command {
	var a agentAccess
	cmd := &cobra.Command{Use: "asking", Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true, RunE: func(cmd *cobra.Command, _ []string) (err error) {
		*results, err = askAgents(cmd.Context(), &a, func(ctx context.Context, c *desk.Client) (string, error) {
			var out struct{ Method string }
			return out.Method, c.Ask(ctx, http.MethodGet, "/echo", nil, &out)
		})
		return err
	}}
	a.flags(cmd)
	return cmd
}

func TestAskAgents(t *testing.T) {
	k := desktest.NewKubelet(t, func(h http.Handler) (*httptest.Server, error) { return httptest.NewServer(h), nil })
	for _, c := range []struct{ args, want string }{
		{"--socket " + k.Socket(), ""},
		{"--socket " + k.Socket() + " -o xml", "xml"},
		{"--socket /s --node n", "none of the others can be"},
		{"--socket /s --kubeconfig k", "none of the others can be"},
		{"--socket /s --ebb-namespace n", "none of the others can be"},
		{"--kubeconfig /nowhere", "/nowhere"},
		{"--timeout 1s --kubeconfig " + noServer(t), "list the agents' pods: "},
	} {
		var results []desk.Result[string]
		var out bytes.Buffer
		cmd := asking(&results)
		cmd.SetArgs(strings.Fields(c.args))
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		err := cmd.ExecuteContext(t.Context())
		switch {
		case c.want == "" && (err != nil || len(results) != 1 || results[0].Err != nil):
			t.Errorf("%s: %v, %+v", c.args, err, results)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
}
