package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ebb-agent/ebb/agent/uninstall"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/buildtest"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/node/nodetest"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

const (
	patience  = time.Minute
	namespace = "ebb-system"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object = peerstest.Object

// fixture is a cluster of one node, whose kubelet the API server can ask.
type fixture struct {
	*testing.T
	*peerstest.Cluster
	kubeconfig string
	node       *node.Node
	kubelet    *peers.Kubelet
	bin        string
}

func newFixture(t *testing.T, config peers.Config, kubelet object) *fixture {
	t.Helper()
	peerstest.Need(t)
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: a kubelet needs root (mounts, containers)")
	}
	b := &fixture{T: t, bin: buildtest.Programs(t, "cmd/ebb", "cmd/ebb-agent"), Cluster: peerstest.Start(t, config)}
	if !config.ControllerManager { // the API server does not end while others watch
		b.letAskKubelets()
	}
	b.kubeconfig = b.AdminKubeconfig(t)
	b.node = nodetest.Start(t, node.Config{Containerd: node.V2, SizeBytes: 320 << 20})
	settings := object{"address": "0.0.0.0", "evictionHard": object{
		"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%",
	}}
	for k, v := range kubelet {
		settings[k] = v
	}
	b.kubelet = peerstest.StartKubelet(t, peers.KubeletConfig{Node: b.node, ControlPlane: b.ControlPlane, Configuration: settings})
	b.Namespace(t, namespace)
	return b
}

// letAskKubelets gives the API server a certificate for that.
func (b *fixture) letAskKubelets() {
	b.Helper()
	creds, err := b.Authority().Client(peers.User{Name: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}})
	b.must(err)
	files, err := creds.Write(b.TempDir(), "kubelet-client")
	b.must(err)
	b.APIServer.SetArgs("--kubelet-client-certificate="+files.Cert, "--kubelet-client-key="+files.Key, "--kubelet-preferred-address-types=InternalIP")
	b.must(b.APIServer.Restart(b.Context()))
}

func (b *fixture) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *fixture) eventually(what string, ask func(context.Context) error) {
	b.Helper()
	await.Holds(b, patience, what, ask)
}

// ebb runs the command with a kubeconfig.
func (b *fixture) ebb(kubeconfig string, env []string, args ...string) (stdout, stderr string, code int) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), filepath.Join(b.bin, "ebb"), append([]string{"uninstall"}, append(args, "--kubeconfig", kubeconfig)...)...)
	cmd.Env = append(os.Environ(), env...)
	return buildtest.Run(b, cmd)
}

// proxy has the kubelets asked by way of the API server.
const proxy = "--kubelet-proxy"

// check runs ebb uninstall check, which must refuse for these reasons, or not at all.
func (b *fixture) check(want []string, args ...string) uninstall.Verdict {
	b.Helper()
	return b.checkAs(b.kubeconfig, want, append(args, proxy)...)
}

func (b *fixture) checkAs(kubeconfig string, want []string, args ...string) (v uninstall.Verdict) {
	b.Helper()
	out, errs, code := b.ebb(kubeconfig, nil, append([]string{"check", "--wait", "0s", "-o", "json"}, args...)...)
	dec := json.NewDecoder(strings.NewReader(out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		b.Fatalf("check %q: %v\n%s%s", args, err, out, errs)
	}
	var got []string
	for _, r := range v.Refusals {
		got = append(got, r.ID)
	}
	if !slices.Equal(got, want) || v.MayGo != (len(want) == 0) || (code == 0) != v.MayGo || code != 0 && code != 3 {
		b.Errorf("check %q: refused for %q with exit code %d, want %q\n%s", args, got, code, want, out)
	}
	return v
}

// found is what one refusal names.
func found(v uninstall.Verdict, id string) string {
	for _, r := range v.Refusals {
		if r.ID == id {
			return fmt.Sprint(r.Total, " ", strings.Join(r.Found, "\n"), " ", r.Leave)
		}
	}
	return ""
}

func (b *fixture) wantIn(text string, words ...string) {
	b.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			b.Errorf("%q is not in: %s", w, text)
		}
	}
}
