package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/tools/node"
)

// TestSocketIsFound: a containerd where k3s has it is found; a second one beside it is not
// chosen from, but named, until it is gone.
func TestSocketIsFound(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian, plain("a", layerBytes))
	second := filepath.Join(b.node.Dir(), "docker.sock")
	removeSecond := b.staleSocket(second)
	b.config.Runtime.Socket = config.SocketAuto
	b.binary = filepath.Join(b.TempDir(), "ebb-agent")
	b.must(os.WriteFile(b.binary, fmt.Appendf(nil, `#!/bin/sh
exec unshare --mount --propagation slave sh -c '
mount -t tmpfs none /run && mkdir -p /run/k3s/containerd /run/containerd &&
ln -s %s /run/k3s/containerd/containerd.sock && ln -s %s /run/containerd/containerd.sock && exec "$@"' sh %s "$@"
`, b.node.Socket(), second, binary), 0o700))
	mark := b.journal.mark()
	b.startUnready()
	b.awaitNotReady("several containerds found", "/run/containerd/containerd.sock (plain)", "/run/k3s/containerd/containerd.sock (k3s or RKE2)", "runtime.socket")
	b.must(removeSecond())
	b.awaitReady()
	found := b.journal.await(t, mark, "container runtime found")
	if found.Text("socket") != "/run/k3s/containerd/containerd.sock" || found.Text("layout") != "k3s or RKE2" {
		t.Errorf("it logs %+v", found.Fields)
	}
	b.awaitReason("a", "not_needed")
}
