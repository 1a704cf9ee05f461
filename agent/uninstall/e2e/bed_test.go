package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ebb-agent/ebb/agent/uninstall"
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

type object = map[string]any

// bed is a cluster of one node, whose kubelet the API server can ask.
type bed struct {
	*testing.T
	cp         *peers.ControlPlane
	admin      *http.Client
	kubeconfig string
	node       *node.Node
	kubelet    *peers.Kubelet
	bin        string
}

func newBed(t *testing.T, kubelet object) *bed {
	t.Helper()
	peerstest.Need(t)
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: a kubelet needs root (mounts, containers)")
	}
	b := &bed{T: t, bin: buildtest.Programs(t, "cmd/ebb", "cmd/ebb-agent")}
	b.cp = peerstest.StartControlPlane(t, peers.Config{})
	b.letAskKubelets()
	var err error
	b.admin, err = b.cp.Admin()
	b.must(err)
	b.kubeconfig, err = b.cp.Kubeconfig("admin", "system:masters")
	b.must(err)
	b.node = nodetest.Start(t, node.Config{Containerd: node.V2, SizeBytes: 320 << 20})
	settings := object{"address": "0.0.0.0", "evictionHard": object{
		"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%",
	}}
	for k, v := range kubelet {
		settings[k] = v
	}
	b.kubelet = peerstest.StartKubelet(t, peers.KubeletConfig{Node: b.node, ControlPlane: b.cp, Configuration: settings})
	b.do(http.MethodPost, "/api/v1/namespaces", object{"metadata": object{"name": namespace}}, nil)
	return b
}

// letAskKubelets gives the API server a certificate for that.
func (b *bed) letAskKubelets() {
	b.Helper()
	creds, err := b.cp.Authority().Client(peers.User{Name: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}})
	b.must(err)
	files, err := creds.Write(b.TempDir(), "kubelet-client")
	b.must(err)
	b.cp.APIServer.SetArgs("--kubelet-client-certificate="+files.Cert, "--kubelet-client-key="+files.Key, "--kubelet-preferred-address-types=InternalIP")
	b.must(b.cp.APIServer.Restart(b.Context()))
}

func (b *bed) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bed) request(method, path string, in, out any) error {
	return peers.Request(b.Context(), b.admin, method, b.cp.URL()+path, in, out)
}

func (b *bed) do(method, path string, in, out any) {
	b.Helper()
	b.must(b.request(method, path, in, out))
}

func (b *bed) eventually(what string, ask func() error) {
	b.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("waited in vain for %s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// ebb runs the command with a kubeconfig.
func (b *bed) ebb(kubeconfig string, env []string, args ...string) (stdout, stderr string, code int) {
	b.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(b.Context(), filepath.Join(b.bin, "ebb"), append([]string{"uninstall"}, append(args, "--kubeconfig", kubeconfig)...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// check runs ebb uninstall check, which must refuse for these reasons, or not at all.
func (b *bed) check(want []string, args ...string) uninstall.Verdict {
	b.Helper()
	return b.checkAs(b.kubeconfig, want, args...)
}

func (b *bed) checkAs(kubeconfig string, want []string, args ...string) (v uninstall.Verdict) {
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
	if !slices.Equal(got, want) || v.MayGo != (len(want) == 0) || (code == 0) != v.MayGo || code > 1 {
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

func (b *bed) wantIn(text string, words ...string) {
	b.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			b.Errorf("%q is not in: %s", w, text)
		}
	}
}
