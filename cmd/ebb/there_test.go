package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/utils/exec"

	"github.com/ebb-agent/ebb/agent/stdio"
	"github.com/ebb-agent/ebb/agent/sysdump/sysdumptest"
)

// there is a cluster with agents, controllers and a Lease. What a command in a pod does is
// up to the test.
type there struct {
	kubeconfig string
	socket     string // of the agents
	holder     string // of the Lease
	command    func(pod, container string, args []string, out, errs io.Writer) (code int)

	mu  sync.Mutex
	ran []string
}

func newThere(t *testing.T) *there {
	t.Helper()
	c := &there{holder: "ebb-controller-b_uid", socket: filepath.Join(t.TempDir(), "agent.sock")}
	listener, err := net.Listen("unix", c.socket)
	if err != nil {
		t.Fatal(err)
	}
	agent := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			http.Error(w, "no containerd found", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"page":%q,"token":"hunter2"}`, r.URL.Path)
	})}
	go func() { _ = agent.Serve(listener) }() // ends with Close
	t.Cleanup(func() { _ = agent.Close() })
	c.kubeconfig = kubeconfigOf(t, c.api())
	t.Setenv("KUBECONFIG", c.kubeconfig)
	return c
}

func podOf(name, node, component, image string) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"name": name, "labels": map[string]any{"app.kubernetes.io/name": "ebb", "app.kubernetes.io/component": component, "app.kubernetes.io/version": "0.1.0"}},
		"spec": map[string]any{"nodeName": node, "containers": []any{map[string]any{"name": component, "image": image,
			"command": []any{"/usr/bin/ebb-" + component, "--config=/etc/ebb/" + component + ".yaml"}}}},
		"status": map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
	}
}

func (c *there) api() http.Handler {
	const ns = "/api/v1/namespaces/ebb-system/"
	pods := map[string]map[string]any{}
	for _, p := range []map[string]any{
		podOf("ebb-agent-1", "worker-1", "agent", "ebb:1"), podOf("ebb-agent-2", "worker-2", "agent", "ebb:1"), podOf("ebb-agent-3", "worker-3", "agent", "ebb:\x1b[31m"),
		podOf("ebb-controller-a", "worker-1", "controller", "ebb:1"), podOf("ebb-controller-b", "worker-2", "controller", "ebb:1"),
	} {
		pods[p["metadata"].(map[string]any)["name"].(string)] = p
	}
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // a client that goes away has its reasons
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+ns+"pods", func(w http.ResponseWriter, r *http.Request) {
		items := []any{}
		for _, name := range []string{"ebb-agent-1", "ebb-agent-2", "ebb-agent-3", "ebb-controller-a", "ebb-controller-b"} {
			_, component, one := strings.Cut(r.URL.Query().Get("labelSelector"), "component=")
			if !one || strings.HasPrefix(name, "ebb-"+component) {
				items = append(items, pods[name])
			}
		}
		answer(w, map[string]any{"kind": "PodList", "apiVersion": "v1", "metadata": map[string]any{}, "items": items})
	})
	mux.HandleFunc("GET "+ns+"pods/{pod}", func(w http.ResponseWriter, r *http.Request) { answer(w, pods[r.PathValue("pod")]) })
	mux.HandleFunc("POST "+ns+"pods/{pod}/exec", c.exec)
	mux.HandleFunc("GET "+ns+"pods/{pod}/log", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "msg=started token=hunter2") })
	mux.HandleFunc("GET /apis/coordination.k8s.io/v1/namespaces/ebb-system/leases", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"items": []any{map[string]any{"spec": map[string]any{"holderIdentity": c.holder}}}})
	})
	discovery := func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"kind": "APIGroupDiscoveryList", "items": []any{}})
	}
	mux.HandleFunc("GET /api", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":""},"versions":[{"version":"v1","resources":[`+
			`{"resource":"pods","responseKind":{"kind":"Pod"},"singularResource":"pod","shortNames":["po"],"scope":"Namespaced","verbs":["get","list","watch","delete"]},`+
			`{"resource":"nodes","responseKind":{"kind":"Node"},"singularResource":"node","shortNames":["no"],"scope":"Cluster","verbs":["get","list","watch","delete"]}]}]}]}`)
	})
	mux.HandleFunc("GET /apis", discovery)
	return mux
}

// exec runs a command as a kubelet does.
func (c *there) exec(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	remotecommand.ServeExec(w, r, c, r.PathValue("pod"), "", q.Get("container"), q["command"],
		&remotecommand.Options{Stdin: q.Has("stdin"), Stdout: true, Stderr: true}, time.Hour, time.Minute, []string{remotecommand.StreamProtocolV4Name})
}

// ExecInContainer is what a command does.
func (c *there) ExecInContainer(ctx context.Context, pod, _, container string, command []string, in io.Reader, out, errs io.WriteCloser,
	_ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	if command[0] == "/usr/bin/ebb-agent" {
		return stdio.Dial(ctx, c.socket, in, out)
	}
	c.mu.Lock()
	c.ran = append(c.ran, pod+"/"+container+": "+strings.Join(command, " "))
	c.mu.Unlock()
	code := 0
	if c.command != nil {
		code = c.command(pod, container, command, out, errs)
	}
	if code != 0 {
		return exec.CodeExitError{Err: errors.New("it failed"), Code: code}
	}
	return nil
}

// commands are those that ran since it was last asked.
func (c *there) commands() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := strings.Join(c.ran, "\n")
	c.ran = nil
	return all
}

// word is one of a command line; no quote stands within one.
var word = regexp.MustCompile(`"[^"]*"|\S+`)

// shown are the commands that a help shows.
func shown(help string) (lines [][]string) {
	for line := range strings.Lines(help) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " | ")
		var args []string
		for _, word := range word.FindAllString(line, -1) {
			args = append(args, strings.Trim(word, `"`))
		}
		if len(args) > 0 && args[0] == "ebb" {
			lines = append(lines, args[1:])
		}
	}
	return lines
}

// TestDoctorThere: the doctor runs in the pod of that node's agent, with its configuration
// and the flags that were given, and ends as it does.
func TestDoctorThere(t *testing.T) {
	c := newThere(t)
	c.command = func(_, _ string, _ []string, out, errs io.Writer) int {
		fmt.Fprint(out, "fine \x1b[31m\n")
		fmt.Fprint(errs, "but\u202e\n")
		return 3
	}
	for args, want := range map[string]string{
		"doctor --node worker-3":                                   "ebb-agent-3/agent: /usr/bin/ebb doctor --config=/etc/ebb/agent.yaml",
		"doctor --node worker-1 -o json --config /x --skip-probes": "ebb-agent-1/agent: /usr/bin/ebb doctor --config=/x --output=json --skip-probes=true",
	} {
		var out, errs bytes.Buffer
		err := run(t.Context(), strings.Fields(args), &out, &errs)
		var code exitCode
		if !errors.As(err, &code) || code != 3 || out.String() != "fine \\u001b[31m\n" || errs.String() != "but\\u202e\n" {
			t.Errorf("%s: %v\n%s%s", args, err, &out, &errs)
		}
		if got := c.commands(); got != want {
			t.Errorf("%s: ran %s, want %s", args, got, want)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"doctor", "--node", "nowhere"}, &out, &out); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Error(err)
	}
}

// TestControlThere: without a socket here, the command runs in the pod that leads.
func TestControlThere(t *testing.T) {
	c := newThere(t)
	c.command = func(_, _ string, _ []string, out, _ io.Writer) int { fmt.Fprintln(out, "answered"); return 0 }
	const there = "ebb-controller-b/controller: /usr/bin/ebb control --socket=/run/ebb/controller.sock "
	for _, tc := range []struct{ args, want string }{
		{"decisions", "decisions"}, {"pause", "pause"}, {"confirm-restore", "confirm-restore"},
		{"confirm-lost", "confirm-lost"}, {"confirm-lost a b", "confirm-lost a b"},
		{"collectors --within 1h", "collectors --within=1h0m0s --limit=20"},
		{"explain po/web-1 -n shop", "explain --api-version=v1 --kind=Pod --namespace=shop --name=web-1"},
		{"explain Pod web-1", "explain --api-version=v1 --kind=Pod --namespace=default --name=web-1"},
		{"explain no/worker-3 -n shop --uid u", "explain --api-version=v1 --kind=Node --name=worker-3 --uid=u"},
		{"explain --api-version apps/v1 --kind ReplicaSet -n shop --name web-1", "explain --api-version=apps/v1 --kind=ReplicaSet --namespace=shop --name=web-1"},
	} {
		var out, errs bytes.Buffer
		err := run(t.Context(), append([]string{"control"}, strings.Fields(tc.args)...), &out, &errs)
		if got := c.commands(); err != nil || got != there+tc.want || out.String() != "answered\n" {
			t.Errorf("%s: %v: %q, %q", tc.args, err, got, &out)
		}
	}
	for args, want := range map[string]string{
		"explain": "TYPE/NAME", "explain web": "TYPE/NAME", "explain gadget/x": "gadget", "explain pod/x --api-version v1 --kind Pod --name y": "not by both",
		"explain --kind Pod": "api-version", "decisions --ebb-namespace elsewhere": "elsewhere",
	} {
		var out bytes.Buffer
		if err := run(t.Context(), append([]string{"control"}, strings.Fields(args)...), &out, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	c.holder = "nobody_uid"
	var out bytes.Buffer
	if err := run(t.Context(), []string{"control", "types"}, &out, &out); err == nil || !strings.Contains(err.Error(), "none of ebb-controller-a, ebb-controller-b holds a Lease") {
		t.Error(err)
	}
}

// TestThereExamples: what the help of each command shows that speaks to a cluster runs.
func TestThereExamples(t *testing.T) {
	c := newThere(t)
	t.Chdir(t.TempDir())
	help := versionExamples + "\n" + sysdumpExamples + "\n  ebb control collectors --within 24h\n  ebb doctor --node worker-3\n"
	for _, line := range shown(controlExamples) {
		if !strings.Contains(strings.Join(line, " "), "--socket") { // TestControl has those
			help += "  ebb " + strings.Join(line, " ") + "\n"
		}
	}
	help = strings.ReplaceAll(help+explainExamples, "replicaset/", "pod/")
	lines := shown(help)
	for _, line := range lines {
		var out, errs bytes.Buffer
		err := run(t.Context(), line, &out, &errs)
		var code exitCode
		if err != nil && !(errors.As(err, &code) && code == exitIncomplete) {
			t.Errorf("%q: %v\n%s%s", line, err, &out, &errs)
		}
	}
	if len(lines) != 15 {
		t.Errorf("%d examples ran", len(lines))
	}
	_ = c
}

func TestVersion(t *testing.T) {
	c := newThere(t)
	var out, errs bytes.Buffer
	if err := run(t.Context(), []string{"version"}, &out, &errs); err != nil || !strings.HasPrefix(out.String(), "ebb 0.") {
		t.Errorf("%v: %s", err, &out)
	}
	out.Reset()
	if err := run(t.Context(), []string{"version", "--agents"}, &out, &errs); err != nil {
		t.Fatal(err)
	}
	flat := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"CONTROLLER LEADS READY CHART IMAGE ebb-controller-a false true 0.1.0 ebb:1 ebb-controller-b true true 0.1.0 ebb:1 NODE", "worker-2 true 0.1.0 ebb:1 worker-3",
		"worker-3 true 0.1.0 ebb:",
	} {
		if !strings.Contains(flat, want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("%q", &out)
	}
	out.Reset()
	var v versions
	if err := run(t.Context(), []string{"version", "--agents", "-o", "json"}, &out, &errs); err != nil || json.Unmarshal(out.Bytes(), &v) != nil {
		t.Fatal(err)
	}
	if len(v.Agents) != 3 || len(v.Controllers) != 2 || !v.Controllers[1].Leads || v.Version == "" || errs.Len() > 0 {
		t.Errorf("%+v %s", v, &errs)
	}
	for _, args := range []string{"version -o xml", "version --agents --kubeconfig /nowhere", "version --agents --ebb-namespace elsewhere"} {
		if err := run(t.Context(), strings.Fields(args), &out, &errs); err == nil {
			t.Errorf("%s: no error", args)
		}
	}
	_ = c
}

// TestSysdump: pages come over the desk, commands by exec; a file is not overwritten.
func TestSysdump(t *testing.T) {
	c := newThere(t)
	t.Chdir(t.TempDir())
	c.command = func(_, _ string, args []string, out, _ io.Writer) int { fmt.Fprintln(out, args); return 0 }
	var out, errs bytes.Buffer
	err := run(t.Context(), []string{"sysdump", "-o", "x.tar.gz", "--node", "worker-1", "--node", "nowhere"}, &out, &errs)
	var code exitCode
	if !errors.As(err, &code) || code != exitIncomplete || out.Len() > 0 || !strings.Contains(errs.String(), "errors.txt") {
		t.Fatalf("%v\n%s%s", err, &out, &errs)
	}
	archive, err := os.Open("x.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	files := sysdumptest.Unpack(t, archive)
	for name, want := range map[string]string{
		"nodes/worker-1/status.json": `{"page":"/status","token":"[redacted]"}`, "controllers/ebb-controller-a/ready.txt": "[/usr/bin/ebb control ready]\n",
		"nodes/worker-1/ready.txt":             "no containerd found\n",
		"nodes/worker-1/ebb-agent-1-agent.log": "msg=started token=[redacted]\n",
	} {
		if files[name] != want {
			t.Errorf("%s: %q", name, files[name])
		}
	}
	if !strings.Contains(files["errors.txt"], "nodes/nowhere/status.json: no agent is on this node") {
		t.Error(files["errors.txt"])
	}
	for args, want := range map[string]string{
		"sysdump -o x.tar.gz": "exists already", "sysdump --max-nodes 0": "--max-nodes", "sysdump --log-lines 0": "--log-lines", "sysdump -o /nowhere/x": "/nowhere",
		"sysdump --ebb-namespace elsewhere": "elsewhere", "sysdump now": "now",
	} {
		if err := run(t.Context(), strings.Fields(args), &out, &errs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
