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

type object = map[string]any

// bed is a control plane in which nobody collects garbage, so that orphans stay, and
// namespaces are deleted by their controller.
type bed struct {
	cp         *peers.ControlPlane
	admin      *http.Client
	kubeconfig string
	ebb        string
	path       string // with kubectl
}

func start(t *testing.T) *bed {
	t.Helper()
	kubectl := peerstest.Binary(t, "kubectl")
	cp := peerstest.StartControlPlane(t, peers.Config{ControllerManager: true, ControllerManagerArgs: []string{"--controllers=namespace-controller"}})
	b := &bed{cp: cp, path: filepath.Dir(kubectl) + ":/usr/bin:/bin"}
	var err error
	if b.admin, err = cp.Admin(); err != nil {
		t.Fatal(err)
	}
	if b.kubeconfig, err = cp.Kubeconfig("admin", "system:masters"); err != nil {
		t.Fatal(err)
	}
	b.ebb = buildtest.Program(t, "cmd/ebb")
	return b
}

func (b *bed) do(t *testing.T, method, path string, in, out any) {
	t.Helper()
	if err := peers.Request(t.Context(), b.admin, method, b.cp.URL()+path, in, out); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}

// serve makes a custom type.
func (b *bed) serve(t *testing.T, group, kind, plural, scope string) {
	t.Helper()
	b.do(t, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", object{
		"metadata": object{"name": plural + "." + group},
		"spec": object{"group": group, "scope": scope, "names": object{"kind": kind, "plural": plural},
			"versions": []object{{"name": "v1", "served": true, "storage": true,
				"schema": object{"openAPIV3Schema": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}, nil)
	await(t, kind+" to be served", func() error { return b.get(t, "/apis/"+group+"/v1/"+plural) })
}

func (b *bed) get(t *testing.T, path string) error {
	return peers.Request(t.Context(), b.admin, http.MethodGet, b.cp.URL()+path, nil, nil)
}

// reference is an owner reference to what was made.
type reference = object

// create makes an object and gives a reference to it.
func (b *bed) create(t *testing.T, path, apiVersion, kind, name string, meta object, more ...object) reference {
	t.Helper()
	meta["name"] = name
	o := object{"apiVersion": apiVersion, "kind": kind, "metadata": meta}
	for _, m := range more {
		for k, v := range m {
			o[k] = v
		}
	}
	var made struct{ Metadata struct{ UID string } }
	b.do(t, http.MethodPost, path, o, &made)
	return reference{"apiVersion": apiVersion, "kind": kind, "name": name, "uid": made.Metadata.UID, "blockOwnerDeletion": true}
}

func (b *bed) configMap(t *testing.T, namespace, name string, meta object) reference {
	t.Helper()
	return b.create(t, "/api/v1/namespaces/"+namespace+"/configmaps", "v1", "ConfigMap", name, meta)
}

func (b *bed) namespace(t *testing.T, name string) {
	t.Helper()
	b.do(t, http.MethodPost, "/api/v1/namespaces", object{"metadata": object{"name": name}}, nil)
}

func (b *bed) delete(t *testing.T, path, policy string) {
	t.Helper()
	b.do(t, http.MethodDelete, path, object{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}, nil)
}

// run has the command report.
func (b *bed) run(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), b.ebb, append([]string{"orphans"}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

func (b *bed) report(t *testing.T, args ...string) (orphans.Report, int) {
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
func (b *bed) shell(t *testing.T, command string) (string, error) {
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

func await(t *testing.T, what string, holds func() error) {
	t.Helper()
	end := time.Now().Add(90 * time.Second)
	for {
		err := holds()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("wait for %s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// called is a finding in a word.
func called(f orphans.Finding) string {
	return fmt.Sprintf("%s %s %s/%s", f.Reason, f.Object.Namespace, f.Object.Resource, f.Object.Name)
}
