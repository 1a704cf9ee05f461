package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ebb-agent/ebb/agent/orphans"
	"github.com/ebb-agent/ebb/tools/buildtest"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object = peerstest.Object

const patience = 90 * time.Second

// fixture is a control plane in which nobody collects garbage, so that orphans stay, and
// namespaces are deleted by their controller.
type fixture struct {
	*peerstest.Cluster
	kubeconfig string
	ebb        string
	path       string // with kubectl
}

func start(t *testing.T) *fixture {
	t.Helper()
	kubectl := peerstest.Binary(t, "kubectl")
	b := &fixture{path: filepath.Dir(kubectl) + ":/usr/bin:/bin", Cluster: peerstest.Start(t,
		peers.Config{ControllerManager: true, ControllerManagerArgs: []string{"--controllers=namespace-controller"}})}
	b.kubeconfig, b.ebb = b.AdminKubeconfig(t), buildtest.Program(t, "cmd/ebb")
	return b
}

func (b *fixture) get(t *testing.T, path string) error {
	return b.Ask(t.Context(), http.MethodGet, path, nil, nil)
}

// reference is an owner reference to what was made.
type reference = object

// create makes an object and gives a reference to it.
func (b *fixture) create(t *testing.T, path, apiVersion, kind, name string, meta object, more ...object) reference {
	t.Helper()
	meta["name"] = name
	o := object{"apiVersion": apiVersion, "kind": kind, "metadata": meta}
	for _, m := range more {
		for k, v := range m {
			o[k] = v
		}
	}
	uid := b.Must(t, http.MethodPost, path, o)
	return reference{"apiVersion": apiVersion, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": true}
}

func (b *fixture) configMap(t *testing.T, namespace, name string, meta object) reference {
	t.Helper()
	return b.create(t, "/api/v1/namespaces/"+namespace+"/configmaps", "v1", "ConfigMap", name, meta)
}

func (b *fixture) delete(t *testing.T, path, policy string) {
	t.Helper()
	b.Must(t, http.MethodDelete, path, object{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy})
}

// run has the command report.
func (b *fixture) run(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	return buildtest.Run(t, exec.CommandContext(t.Context(), b.ebb, append([]string{"orphans"}, args...)...))
}

func (b *fixture) report(t *testing.T, args ...string) (orphans.Report, int) {
	t.Helper()
	if !slices.Contains(args, "--kubeconfig") {
		args = append(args, "--kubeconfig", b.kubeconfig)
	}
	args = append([]string{"-o", "json", "--older-than", "1s", "--release-history", "2"}, args...)
	out, errs, code := b.run(t, args...)
	var r orphans.Report
	dec := json.NewDecoder(bytes.NewBufferString(out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		t.Fatalf("exit code %d: %v\n%s\n%s", code, err, out, errs)
	}
	return r, code
}

// shell runs a command as it was printed.
func (b *fixture) shell(t *testing.T, command string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Env, cmd.Dir = append(os.Environ(), "PATH="+b.path), t.TempDir()
	out, err := cmd.CombinedOutput()
	left, readErr := os.ReadDir(cmd.Dir)
	if readErr != nil || len(left) > 0 {
		t.Errorf("%s left %v here, %v", command, left, readErr)
	}
	return string(out), err
}

// called is a finding in a word.
func called(f orphans.Finding) string {
	return fmt.Sprintf("%s %s %s/%s", f.Reason, f.Object.Namespace, f.Object.Resource, f.Object.Name)
}
