// Package peerstest starts the real Kubernetes for tests, and sends requests to it. "make e2e" builds
// the binaries and runs every package whose tests import peerstest. Elsewhere these tests are
// skipped, because the build takes minutes.
package peerstest

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/process"
)

var started atomic.Int64

// Need skips the test unless BinariesEnv is set.
func Need(t testing.TB) {
	t.Helper()
	if os.Getenv(peers.BinariesEnv) == "" {
		t.Skipf("SKIPPED: needs the real Kubernetes: run make e2e (or EBB_PEERS=$(tools/peers/build) go test)")
	}
}

// Binary returns the path of one of the binaries.
func Binary(t testing.TB, name string) string {
	t.Helper()
	Need(t)
	path := filepath.Join(os.Getenv(peers.BinariesEnv), name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v (is $%s what tools/peers/build printed last?)", err, peers.BinariesEnv)
	}
	return path
}

// OutageEnv is the variable that makes outages as long as those of real clusters, "5m" for instance.
const OutageEnv = "EBB_TEST_OUTAGE"

// Outage returns how long a test stops an API server: short, or the value of OutageEnv.
func Outage(t testing.TB, short time.Duration) time.Duration {
	t.Helper()
	long := os.Getenv(OutageEnv)
	if long == "" {
		return short
	}
	d, err := time.ParseDuration(long)
	if err != nil || d <= 0 {
		t.Fatalf("%s is %q: it must be a duration above 0, such as 5m", OutageEnv, long)
	}
	return d
}

// StartControlPlane starts a control plane that is closed when the test ends. A test that failed
// prints the end of the logs. Control planes that killed tests left behind are removed first.
func StartControlPlane(t testing.TB, c peers.Config) *peers.ControlPlane {
	t.Helper()
	Need(t)
	c.Name = cmp.Or(c.Name, fmt.Sprintf("test-%d-%d", os.Getpid(), started.Add(1)))
	c.Base = cmp.Or(c.Base, peers.BaseDir())
	c.Log = cmp.Or(c.Log, t.Output())
	if _, err := peers.Clean(c.Base, slog.New(slog.DiscardHandler)); err != nil {
		t.Logf("clean up after earlier tests: %v", err)
	}
	cp, err := peers.StartControlPlane(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, component := range []*peers.Component{cp.Etcd, cp.APIServer, cp.ControllerManager, cp.Scheduler} {
			dumpLog(t, component)
		}
		if err := cp.Close(); err != nil {
			t.Errorf("close control plane: %v", err)
		}
	})
	return cp
}

// StartKubelet starts a kubelet that is closed when the test ends. If nodetest started the node, the
// kubelet is closed before it.
func StartKubelet(t testing.TB, c peers.KubeletConfig) *peers.Kubelet {
	t.Helper()
	Need(t)
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: a kubelet needs root (mounts, containers)")
	}
	c.Log = cmp.Or(c.Log, t.Output())
	k, err := peers.StartKubelet(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		dumpLog(t, k.Component)
		if err := k.Close(); err != nil {
			t.Errorf("close kubelet: %v", err)
		}
	})
	return k
}

func dumpLog(t testing.TB, c *peers.Component) {
	if c != nil && t.Failed() {
		t.Log(process.Tail(c.LogFile()))
	}
}
