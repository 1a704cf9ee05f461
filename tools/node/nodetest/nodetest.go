// Package nodetest starts throwaway nodes for tests.
package nodetest

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"

	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/process"
)

var started atomic.Int64

// Start starts a node that is closed when the test ends; a test that failed prints the
// node's containerd log. Without a name in the Config the node gets a unique one, so
// that tests and packages can run in parallel. Nodes that killed tests left behind are
// removed first.
func Start(t testing.TB, c node.Config) *node.Node {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: a throwaway node needs root (mounts, containers)")
	}
	c.Name = cmp.Or(c.Name, fmt.Sprintf("test-%d-%d", os.Getpid(), started.Add(1)))
	c.Base = cmp.Or(c.Base, node.BaseDir())
	c.Log = cmp.Or(c.Log, t.Output())
	if _, err := node.Clean(t.Context(), c.Base, slog.New(slog.DiscardHandler)); err != nil {
		t.Logf("clean up after earlier tests: %v", err) // the next Start tries again
	}
	n, err := node.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(process.Tail(n.LogFile()))
		}
		if err := n.Close(); err != nil {
			t.Errorf("close node: %v", err)
		}
	})
	return n
}
