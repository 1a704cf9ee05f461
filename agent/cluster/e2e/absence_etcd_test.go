package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

// secondEtcd starts an etcd of its own, and returns where it serves.
func secondEtcd(t *testing.T) (url string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "etcd2") // a socket's path is short, and a test's directory is not
	if err != nil {
		t.Fatal(err)
	}
	clients, members := "unix://"+filepath.Join(dir, "c"), "unix://"+filepath.Join(dir, "p")
	cmd := exec.Command(peerstest.Binary(t, "etcd"), "--name=second", "--data-dir="+filepath.Join(dir, "data"), "--log-level=error",
		"--listen-client-urls="+clients, "--advertise-client-urls="+clients,
		"--listen-peer-urls="+members, "--initial-advertise-peer-urls="+members, "--initial-cluster=second="+members)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	})
	return clients
}

// Types in an etcd of their own have other versions: the Lease proves nothing about them, and
// after an absence they are listed. Nothing else is.
func TestAbsenceWithTwoEtcds(t *testing.T) {
	peerstest.Need(t)
	args := append(auditArgs(t), "--etcd-servers-overrides=/configmaps#"+secondEtcd(t))
	v := &several{fixture: newFixture(t, peers.Config{Audit: true, APIServerArgs: args})}
	v.servers = []*peers.Component{v.APIServer}
	v.define(t, "v1")
	v.p = newProxy(t, 0, v.URL())
	r := v.lead(t, v.p.kubeconfig(t, v.fixture), lease)
	g := v.guard(t)
	types := r.followed(t)
	v.awaitRenewals(t, 3)
	v.p.cut()
	time.Sleep(peerstest.Outage(t, 2500*time.Millisecond)) // the fault itself
	v.reset(t)
	v.p.join()
	v.awaitFollowed(t, types)
	v.canary(t)
	u := v.since(t)
	var maps int
	for _, uri := range u.listed {
		if strings.HasPrefix(uri, "/api/v1/configmaps?") {
			maps++
		}
	}
	if n := u.lists + u.streamed; maps == 0 || n-maps > 4 {
		t.Errorf("%v: %q", u, u.listed)
	}
	g.check(t)
}
