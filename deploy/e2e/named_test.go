package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/buildtest"
	"github.com/ebb-agent/ebb/tools/chart"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/process"
)

// namedTypes installs the chart with the example of docs/security.md.
func namedTypes(t *testing.T) (b *fixture, socket string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "name them:\n\n```yaml\n")
	example, _, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("docs/security.md has no example of named types")
	}
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	return install(t, "--values", values)
}

// install the chart, enforcing and without agents, and run ebb-controller with the account and the
// configuration that come of it.
func install(t *testing.T, args ...string) (b *fixture, socket string) {
	t.Helper()
	helm, err := chart.Build(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := helm.Template(t.Context(), append(args, "--set", "controller.enabled=true,controller.mode=enforce,namespace.create=true,agent.enabled=false")...)
	if err != nil {
		t.Fatal(err)
	}
	b = start(t, peers.Config{Audit: true})
	var shipped string
	for i, d := range rendered {
		if strings.HasPrefix(d.Template, "uninstall/") {
			continue
		}
		file := filepath.Join(t.TempDir(), fmt.Sprint(i, ".yaml"))
		if err := os.WriteFile(file, d.Text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := b.Apply(t.Context(), file); err != nil {
			t.Fatal(err)
		}
		if d.Template == "controller/configmap.yaml" {
			var o struct{ Data map[string]string }
			if err := yaml.Unmarshal(d.Text, &o); err != nil {
				t.Fatal(err)
			}
			shipped = o.Data["controller.yaml"]
		}
	}
	return b, b.runController(t, shipped)
}

// runController runs it with a shipped configuration, but for where it listens, and
// returns its socket.
func (b *fixture) runController(t *testing.T, shipped string) (socket string) {
	t.Helper()
	if _, err := config.Parse([]byte(shipped)); err != nil {
		t.Fatal(err)
	}
	var c object
	if err := yaml.Unmarshal([]byte(shipped), &c); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c["server"] = object{"address": "", "adminSocket": filepath.Join(dir, "s")}
	data, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "controller.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	account, err := b.ServiceAccountKubeconfig(t.Context(), "ebb-system", "ebb-controller")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(buildtest.Program(t, "cmd/ebb-controller"), "--kubeconfig", account, "--config", file)
	cmd.Stderr = t.Output()
	p, err := process.Start(cmd, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(p.End(context.Background(), syscall.SIGTERM), p.Err()); err != nil {
			t.Errorf("ebb-controller: %v", err)
		}
	})
	return filepath.Join(dir, "s")
}

// own makes an owner, and dependents of two types: one that was named, and one that
// was not.
func (b *fixture) own(t *testing.T, name string) {
	t.Helper()
	const core = "/api/v1/namespaces/default/"
	owner := b.Must(t, http.MethodPost, core+"configmaps", object{"metadata": object{"name": name}})
	yes := true
	meta := object{"name": name + "-dependent", "ownerReferences": []reference{{"v1", "ConfigMap", name, owner, &yes}}}
	b.Must(t, http.MethodPost, core+"configmaps", object{"metadata": meta})
	b.Must(t, http.MethodPost, core+"secrets", object{"metadata": meta})
}

// TestNamedTypes: with the example of docs/security.md, what was named is collected in
// all three ways, and what was not named is not touched.
func TestNamedTypes(t *testing.T) {
	b, socket := namedTypes(t)
	const configMaps, secrets = "/api/v1/namespaces/default/configmaps/", "/api/v1/namespaces/default/secrets/"
	has := func(path string) bool { return b.as(t, "", http.MethodGet, path, nil).code == http.StatusOK }
	for policy, left := range map[string]bool{"Background": false, "Foreground": false, "Orphan": true} {
		t.Run(policy, func(t *testing.T) {
			name := strings.ToLower(policy)
			b.own(t, name)
			b.Must(t, http.MethodDelete, configMaps+name, object{"propagationPolicy": policy})
			await.Holds(t, patience, "the owner and its dependent", func(context.Context) error {
				a := b.as(t, "", http.MethodGet, configMaps+name+"-dependent", nil)
				if has(configMaps+name) || (a.code == http.StatusOK) != left || strings.Contains(string(a.body), "ownerReferences") {
					return errNotYet
				}
				return nil
			})
			if !has(secrets + name + "-dependent") {
				t.Error("a type that was not named was collected")
			}
		})
	}
	t.Run("asked", func(t *testing.T) { testControl(t, socket) })
	for _, e := range b.requests(t, "ebb-controller") {
		if e.Verb != "get" && e.Verb != "list" && e.Verb != "watch" && e.ResponseStatus.Code == http.StatusForbidden {
			t.Errorf("may not: %s %s", e.Verb, e.RequestURI)
		}
		if e.ObjectRef.Resource == "secrets" && e.ResponseStatus.Code == http.StatusOK {
			t.Errorf("has read secrets: %s %s", e.Verb, e.RequestURI)
		}
	}
}

// TestCollectorWithoutOwners: on a control plane that somebody else runs, Jobs go after their TTL by the
// rights that this takes. Owners are off: their dependents stay, and nothing else is read.
func TestCollectorWithoutOwners(t *testing.T) {
	b, _ := install(t, "--set", "controller.config.collectors.owners.mode=off,controller.config.collectors.jobs.mode=enforce,"+
		"controller.config.collectors.pods.mode=off,controller.config.collectors.csrs.mode=off,controller.config.collectors.leases.mode=off,"+
		"controller.config.collectors.nodes.mode=off,controller.config.collectors.volumes.mode=off")
	const configMaps, jobs = "/api/v1/namespaces/default/configmaps/", "/apis/batch/v1/namespaces/default/jobs"
	b.own(t, "owner")
	b.Must(t, http.MethodDelete, configMaps+"owner", nil)
	b.Must(t, http.MethodPost, jobs, object{"metadata": object{"name": "ended"}, "spec": object{"ttlSecondsAfterFinished": 1,
		"template": object{"spec": object{"restartPolicy": "Never", "containers": []any{object{"name": "c", "image": "example.com/none"}}}}}})
	at := time.Now().UTC().Format(time.RFC3339)
	conditions := []any{object{"type": "FailureTarget", "status": "True", "lastTransitionTime": at}, object{"type": "Failed", "status": "True", "lastTransitionTime": at}}
	b.Must(t, http.MethodPatch, jobs+"/ended/status", object{"status": object{"startTime": at, "conditions": conditions}})
	await.Holds(t, patience, "the Job to be deleted", func(context.Context) error {
		a := b.as(t, "", http.MethodGet, jobs+"/ended", nil)
		if a.code == http.StatusOK && !strings.Contains(string(a.body), "deletionTimestamp") {
			return errNotYet
		}
		return nil
	})
	if a := b.as(t, "", http.MethodGet, configMaps+"owner-dependent", nil); a.code != http.StatusOK {
		t.Errorf("a dependent was collected: %d", a.code)
	}
	reads := []string{"jobs", "namespaces", "apiservices", "leases"} // the last is its own
	for _, e := range b.requests(t, "ebb-controller") {
		if o := e.ObjectRef; o.Resource != "" && (!slices.Contains(reads, o.Resource) || e.ResponseStatus.Code == http.StatusForbidden) {
			t.Errorf("%s %s: %d", e.Verb, e.RequestURI, e.ResponseStatus.Code)
		}
	}
}

// testControl: what people do in the pod, which has no shell.
func testControl(t *testing.T, socket string) {
	ebb := buildtest.Program(t, "cmd/ebb")
	for _, c := range []struct{ command, wants string }{
		{"decisions", "background-dependent"},
		{"types", "secrets"},
		{"pause", ""},
		{"ready", "paused"},
		{"resume", ""},
		{"explain --api-version v1 --kind ConfigMap --namespace default --name orphan-dependent", "orphan-dependent"},
	} {
		out, err := exec.CommandContext(t.Context(), ebb, append([]string{"control", "--socket", socket}, strings.Fields(c.command)...)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.wants) {
			t.Errorf("ebb control %s: %v, %.500s", c.command, err, out)
		}
	}
}
