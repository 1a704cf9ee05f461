package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/tools/node"
)

func TestParseLayer(t *testing.T) {
	for in, want := range map[string]node.Layer{
		"base:40MiB": {Seed: "base", Bytes: 40 << 20},
		"app:1k:200": {Seed: "app", Bytes: 1 << 10, Files: 200},
		"a.b-c:0":    {Seed: "a.b-c"},
	} {
		if got, err := parseLayer(in); err != nil || !cmp.Equal(got, want) {
			t.Errorf("parseLayer(%q) = %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "base", "base:", "base:much", "base:1k:few", "a:1k:2:3"} {
		if got, err := parseLayer(in); err == nil || !strings.Contains(err.Error(), "SEED:SIZE[:FILES]") {
			t.Errorf("parseLayer(%q) = %+v, %v; want an error that says how", in, got, err)
		}
	}
}

// throwaway runs the command and returns what it prints.
func throwaway(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := root()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(ctx)
	return out.String(), err
}

func TestNodeByCommands(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: a throwaway node needs root (mounts, containers)")
	}
	base := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		out, err := throwaway(ctx, "start", "--base", base, "--name", "n", "--size", "128MiB")
		if !strings.Contains(out, "CONTAINERD_ADDRESS="+base) {
			err = errors.Join(err, errors.New("start printed "+out))
		}
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("start: %v", err)
		}
		if left, err := os.ReadDir(base); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	awaitNode(t, base)

	for _, step := range []struct {
		args string
		want string // in the output, or in the error
	}{
		{"import --name n node.test/app:1 --layer x:1MiB:3", "sha256:"},
		{"run --name n node.test/app:1 -- ls /data/x", "0\n1\n2\n"},
		{"run --name n node.test/app:1 -- false", "exit code 1"},
		{"run --name n --id web --detach node.test/app:1", "web"},
		{"fill --name n --to 60", ": 60."},
		{"fill --name n", "at least one of the flags"},
		{"unfill --name n", "% used"},
		{"list", "pid "},
		{"clean", ""},
		{"run --name other node.test/app:1", "no such file"},
	} {
		out, err := throwaway(ctx, append([]string{"--base", base}, strings.Split(step.args, " ")...)...)
		if err != nil {
			out += err.Error()
		}
		if !strings.Contains(out, step.want) {
			t.Errorf("throwaway %s: %q, want %q in it", step.args, out, step.want)
		}
	}
}

// awaitNode returns once the node has its sandbox image, the last step of a
// start.
func awaitNode(t *testing.T, base string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		out, err := throwaway(ctx, "run", "--base", base, "--name", "n", node.SandboxImage, "--", "/pause/busybox", "true")
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("wait for the node: %v: %s", err, out)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
