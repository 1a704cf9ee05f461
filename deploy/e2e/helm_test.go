package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/buildtest"
	"github.com/ebb-agent/ebb/tools/chart"
	"github.com/ebb-agent/ebb/tools/peers"
)

// release is the chart, installed by helm on a real API server. No kubelet runs its
// pods: what Jobs do, the test does in their place, with their accounts.
type release struct {
	*fixture
	helm       *chart.Helm
	ebb        string // the command
	kubeconfig string
}

const (
	jobs        = "/apis/batch/v1/namespaces/ebb-system/jobs"
	daemonSets  = "/apis/apps/v1/namespaces/ebb-system/daemonsets"
	deployments = "/apis/apps/v1/namespaces/ebb-system/deployments"
	roles       = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	bindings    = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
)

func newRelease(t *testing.T) *release {
	t.Helper()
	r := &release{fixture: start(t, peers.Config{Audit: true})}
	var err error
	if r.helm, err = chart.Build(t.Context(), "../.."); err != nil {
		t.Fatal(err)
	}
	if r.kubeconfig, err = r.Kubeconfig("installer", "system:masters"); err != nil {
		t.Fatal(err)
	}
	r.ebb = buildtest.Program(t, "cmd/ebb")
	r.Namespace(t, "ebb-system")
	return r
}

func (r *release) run(t *testing.T, verb string, args ...string) string {
	t.Helper()
	out, err := r.helm.Release(t.Context(), verb, append([]string{"--kubeconfig", r.kubeconfig}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// names of a collection's objects that belong to the release.
func (r *release) names(t *testing.T, path string) (list []string) {
	t.Helper()
	var found struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	r.Read(t, path+"?labelSelector=app.kubernetes.io/part-of%3Debb", &found)
	for _, o := range found.Items {
		list = append(list, o.Metadata.Name)
	}
	slices.Sort(list)
	return list
}

func (r *release) wantNames(t *testing.T, path string, want ...string) {
	t.Helper()
	if got := r.names(t, path); !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", path, got, want)
	}
}

// job is what helm waits for.
type job struct {
	Metadata struct{ UID string }
	Spec     struct {
		Template struct {
			Spec struct {
				ServiceAccountName string
				Containers         []struct {
					Command, Args []string
					Env           []struct{ Name, Value string }
				}
			}
		}
	}
}

// playKubelet waits for a Job, runs its command here, as the Job's account and with
// the options of the operator's ConfigMap, and ends the Job as the command ended.
func (r *release) playKubelet(t *testing.T, name string, instead map[string]string) (output string) {
	t.Helper()
	var j job
	await.Holds(t, patience, "job "+name, func(context.Context) error {
		a := r.as(t, "", http.MethodGet, jobs+"/"+name, nil)
		if a.code != http.StatusOK || strings.Contains(string(a.body), `"conditions"`) {
			return errNotYet
		}
		return json.Unmarshal(a.body, &j)
	})
	pod := j.Spec.Template.Spec
	account, err := r.ServiceAccountKubeconfig(t.Context(), "ebb-system", pod.ServiceAccountName)
	if err != nil {
		t.Fatal(err)
	}
	c := pod.Containers[0]
	args := append(slices.Clone(c.Command[1:]), c.Args...)
	for i := range args {
		for file, here := range instead {
			args[i] = strings.ReplaceAll(args[i], file, here)
		}
	}
	cmd := exec.CommandContext(t.Context(), r.ebb, append(args, "--kubeconfig", account)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	for _, e := range c.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	if a := r.as(t, "", http.MethodGet, "/api/v1/namespaces/ebb-system/configmaps/ebb-uninstall", nil); a.code == http.StatusOK {
		var held struct{ Data map[string]string }
		if err := json.Unmarshal(a.body, &held); err != nil {
			t.Fatal(err)
		}
		for k, v := range held.Data {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
	}
	out, err := cmd.CombinedOutput()
	r.endJob(t, name, err == nil)
	return string(out)
}

func (r *release) endJob(t *testing.T, name string, complete bool) {
	t.Helper()
	now := time.Now().UTC().Format(time.RFC3339)
	status := object{"startTime": now}
	first, last := "FailureTarget", "Failed"
	if complete {
		first, last = "SuccessCriteriaMet", "Complete"
		status["completionTime"], status["succeeded"] = now, 1
	}
	status["conditions"] = []object{{"type": first, "status": "True", "lastTransitionTime": now}, {"type": last, "status": "True", "lastTransitionTime": now}}
	r.Must(t, http.MethodPatch, jobs+"/"+name+"/status", object{"status": status})
}

// uninstall runs helm uninstall in the background.
func (r *release) uninstall(t *testing.T) func() (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	done := make(chan struct{})
	var out []byte
	var err error
	go func() {
		defer close(done)
		out, err = r.helm.Release(ctx, "uninstall", "--kubeconfig", r.kubeconfig)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() (string, error) { <-done; return string(out), err }
}

func TestHelm(t *testing.T) {
	r := newRelease(t)
	r.wantNotes(t, r.run(t, "install"), "The agents observe", "removes NOTHING", "--set agent.mode=enforce")
	r.wantNames(t, roles, "ebb-agent")
	r.wantNames(t, deployments)
	r.wantNotes(t, r.run(t, "upgrade", "--reset-then-reuse-values", "--set", "controller.enabled=true"),
		"The controller observes", "changes NOTHING", "--set controller.mode=enforce")
	r.wantNames(t, roles, "ebb-agent", "ebb-controller")
	before := [...]string{r.checksum(t, daemonSets+"/ebb-agent"), r.checksum(t, deployments+"/ebb-controller")}
	r.wantNotes(t, r.run(t, "upgrade", "--reset-then-reuse-values", "--set", "agent.mode=enforce"), "The agents enforce", "The controller observes")
	if between := r.checksum(t, deployments+"/ebb-controller"); between != before[1] {
		t.Error("the controllers roll with the agents' mode")
	}
	r.wantNotes(t, r.run(t, "upgrade", "--reset-then-reuse-values", "--set", "controller.mode=enforce"), "The agents enforce", "The controller enforces")
	after := [...]string{r.checksum(t, daemonSets+"/ebb-agent"), r.checksum(t, deployments+"/ebb-controller")}
	if before[0] == after[0] || before[1] == after[1] {
		t.Errorf("the pods do not roll with their configuration: %q, %q", before, after)
	}
	t.Run("the agent's rights", func(t *testing.T) { testAgentAsks(t, r) })
	t.Run("uninstall is refused", func(t *testing.T) { testRefused(t, r) })
	t.Run("uninstall", func(t *testing.T) { testUninstall(t, r) })
	t.Run("the hooks' rights", func(t *testing.T) { testHooksAsk(t, r) })
}

// wantNotes looks for words in the release's notes.
func (r *release) wantNotes(t *testing.T, notes string, words ...string) {
	t.Helper()
	for _, want := range words {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not say %q:\n%s", want, notes)
		}
	}
}

func (r *release) checksum(t *testing.T, path string) string {
	t.Helper()
	var o struct {
		Spec struct {
			Template struct {
				Metadata struct{ Annotations map[string]string }
			}
		}
	}
	r.Read(t, path, &o)
	return o.Spec.Template.Metadata.Annotations["ebb/config"]
}

// testRefused: an object waits for a collector, so nothing is uninstalled; and what the
// hook might do ends with it.
func testRefused(t *testing.T, r *release) {
	r.Must(t, http.MethodPost, "/api/v1/namespaces/default/configmaps", object{"metadata": object{"name": "waits", "finalizers": []string{"foregroundDeletion"}}})
	r.Must(t, http.MethodDelete, "/api/v1/namespaces/default/configmaps/waits", nil)
	r.Must(t, http.MethodPost, "/api/v1/namespaces/ebb-system/configmaps", object{"metadata": object{"name": "ebb-uninstall"}, "data": object{"EBB_UNINSTALL_WAIT": "1s"}})
	end := r.uninstall(t)
	output := r.playKubelet(t, "ebb-uninstall-check", nil)
	if !strings.Contains(output, "waits") || !strings.Contains(output, "kubectl -n ebb-system create configmap ebb-uninstall") {
		t.Errorf("the refusal names neither the object nor the way out:\n%s", output)
	}
	if out, err := end(); err == nil {
		t.Errorf("helm went on: %s", out)
	}
	r.wantNames(t, daemonSets, "ebb-agent")
	r.wantNames(t, deployments, "ebb-controller")
	r.wantNames(t, roles, "ebb-agent", "ebb-controller")
	r.wantNames(t, bindings, "ebb-agent", "ebb-controller")
	r.wantNames(t, jobs, "ebb-uninstall-check") // with its log
}

// testUninstall: when finalizers may stay, everything goes.
func testUninstall(t *testing.T, r *release) {
	r.Must(t, http.MethodPatch, "/api/v1/namespaces/ebb-system/configmaps/ebb-uninstall", object{"data": object{"EBB_UNINSTALL_LEAVE_FINALIZERS": "true"}})
	var failed job
	r.Read(t, jobs+"/ebb-uninstall-check", &failed)
	end := r.uninstall(t)
	await.Holds(t, patience, "the failed Job to be replaced", func(context.Context) error {
		a := r.as(t, "", http.MethodGet, jobs+"/ebb-uninstall-check", nil)
		if a.code != http.StatusOK || bytes.Contains(a.body, []byte(failed.Metadata.UID)) {
			return errNotYet
		}
		return nil
	})
	if output := r.playKubelet(t, "ebb-uninstall-check", nil); !strings.Contains(output, "ebb may be uninstalled.") {
		t.Errorf("it refuses although finalizers may stay:\n%s", output)
	}
	await.Holds(t, patience, "job ebb-uninstall-unload", func(context.Context) error {
		if r.as(t, "", http.MethodGet, jobs+"/ebb-uninstall-unload", nil).code != http.StatusOK {
			return errNotYet
		}
		return nil
	})
	r.wantNames(t, daemonSets) // it runs when the agents are gone
	var config struct{ Data map[string]string }
	r.Read(t, "/api/v1/namespaces/ebb-system/configmaps/ebb-uninstall-unload", &config)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pod.yaml"), []byte(config.Data["pod.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	output := r.playKubelet(t, "ebb-uninstall-unload", map[string]string{"/etc/ebb-uninstall": dir})
	if out, err := end(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, output)
	}
	for _, path := range []string{daemonSets, deployments, jobs, roles, bindings,
		"/api/v1/namespaces/ebb-system/configmaps", "/api/v1/namespaces/ebb-system/serviceaccounts",
		"/apis/rbac.authorization.k8s.io/v1/namespaces/ebb-system/roles", "/apis/rbac.authorization.k8s.io/v1/namespaces/ebb-system/rolebindings",
		"/apis/policy/v1/namespaces/ebb-system/poddisruptionbudgets", "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
		"/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"} {
		r.wantNames(t, path)
	}
}
