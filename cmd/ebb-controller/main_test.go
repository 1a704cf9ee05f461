package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/agent/cluster/config"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, &out, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--kubeconfig", "--config", "mode: enforce", "ebb control pause", "garbage-collector-controller", "ebb control explain"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("--help does not teach %q", want)
		}
	}
}

func TestPrintDefaultConfig(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"config", "default"}, &out, &out); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Parse(out.Bytes()); err != nil || !strings.Contains(out.String(), "leaderElection:") {
		t.Errorf("%v", err)
	}
}

// Errors are reported before anything starts.
func TestRefused(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	empty := write(t, "kubeconfig", "apiVersion: v1\nkind: Config\n")
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"an unknown flag":      {[]string{"--kubeconfg", "x"}, "unknown flag: --kubeconfg"},
		"an argument":          {[]string{"enforce"}, "unknown command"},
		"no such file":         {[]string{"--config", "/none.yaml"}, "/none.yaml"},
		"an unknown field":     {[]string{"--config", write(t, "c.yaml", "breakers: {}\n")}, "breakers: unknown field (known here: mode, paused, circuitBreaker, envelope,"},
		"a wrong value":        {[]string{"--config", write(t, "c.yaml", "mode: on\n")}, "mode: want a string"},
		"no cluster":           {nil, "say which cluster with --kubeconfig FILE"},
		"no such kubeconfig":   {[]string{"--kubeconfig", "/none"}, "kubeconfig /none: "},
		"an empty kubeconfig":  {[]string{"--kubeconfig", empty}, "kubeconfig " + empty},
		"a broken kubeconfig":  {[]string{"--kubeconfig", write(t, "k", "{")}, "kubeconfig "},
		"an address in use":    {[]string{"--kubeconfig", reachable(t), "--config", write(t, "c.yaml", "server: {address: '203.0.113.1:1', adminSocket: ''}\nleaderElection: {enabled: false}\n")}, "server.address: "},
		"a socket's directory": {[]string{"--kubeconfig", reachable(t), "--config", write(t, "c.yaml", "server: {address: '', adminSocket: /proc/none/s}\nleaderElection: {enabled: false}\n")}, "server.adminSocket: "},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if err := run(ctx, tc.args, &out, &out); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// reachable is a kubeconfig that is well-formed; nobody answers there.
func reachable(t *testing.T) string {
	return write(t, "kubeconfig", `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
`)
}
