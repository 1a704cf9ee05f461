package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/agent/doctor"
)

// deadProxy is in the environment of all tests. No test's server is reached by way of a
// proxy: none is ever asked for loopback addresses.
const deadProxy = "http://127.0.0.1:2"

func TestMain(m *testing.M) {
	_ = os.Setenv("HTTP_PROXY", deadProxy)
	os.Exit(m.Run())
}

func TestHelpTeaches(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"--help"}, []string{"doctor", "changes nothing"}},
		{[]string{"cascade", "--help"}, []string{"TYPE/NAME", "--cascade", "--namespace", "--kubeconfig", "-o json | jq", "changes nothing"}},
		{[]string{"orphans", "--help"}, []string{"--namespace", "--all-namespaces", "--kubeconfig", "--context", "--older-than", "Exit code", "changes nothing", "-o name"}},
		{[]string{"version", "--help"}, []string{"--agents", "--ebb-namespace", "--node", "--socket", "--timeout", "--kubeconfig", "--context"}},
		{[]string{"doctor", "--help"}, []string{"--config", "--kubelet-url", "--kubelet-config", "-o json | jq", "Exit code", "hostPID"}},
	} {
		var out bytes.Buffer
		if err := run(context.Background(), c.args, &out, &out); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q does not mention %q:\n%s", c.args, want, out.String())
			}
		}
	}
}

// aside is a configuration that leads to nothing on this machine.
func aside(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "ebb.yaml")
	text := "runtime: {socket: " + dir + "/no.sock}\nserver: {address: \"\", adminSocket: \"\"}\nstate: {directory: " + dir + "}\n" +
		"kernel: {pinDirectory: " + dir + "/pins}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// noServer is a kubeconfig of an API server that is not there.
func noServer(t *testing.T) string {
	t.Helper()
	return kubeconfigFor(t, "https://127.0.0.1:1")
}

func kubeconfigFor(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "` + server + `"}}],
		contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {token: t}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestExitCodes(t *testing.T) {
	good := aside(t)
	bad := filepath.Join(t.TempDir(), "ebb.yaml")
	if err := os.WriteFile(bad, []byte("mode: maybe\nimages: {keep: 7}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want []string // of the error; nil: the command ran
		code int      // if that is not of wrong usage
	}{
		{[]string{"doctor", "--config", good, "--skip-probes"}, nil, 0},
		{[]string{"doctor", "--config", bad}, []string{bad, "mode:", "images.keep:"}, exitError},
		{[]string{"doctor", "--config", "/nowhere"}, []string{"/nowhere"}, exitError},
		{[]string{"doctor", "--config", good, "--output", "xml"}, []string{"--output", "xml"}, 0},
		{[]string{"doctor", "now"}, []string{"now"}, 0},
		{[]string{"doctor", "--colour"}, []string{"--colour"}, 0},
		{[]string{"doctor", "--kubelet-config", "a", "--kubelet-url", "b"}, []string{"kubelet-config", "kubelet-url"}, 0},
		{[]string{"doctor", "--kubelet-cert-file", "a"}, []string{"kubelet-key-file"}, 0},
		{[]string{"patient"}, []string{"patient"}, 0},
		{[]string{"cascade"}, []string{"arg"}, 0},
		{[]string{"cascade", "web"}, []string{"web", "TYPE/NAME"}, 0},
		{[]string{"cascade", "deployment/"}, []string{"deployment/", "TYPE/NAME"}, 0},
		{[]string{"cascade", "a/b", "c"}, []string{"a/b c", "TYPE/NAME"}, 0},
		{[]string{"cascade", "a/b/c"}, []string{"a/b/c", "TYPE/NAME"}, 0},
		{[]string{"cascade", "a/b", "--cascade", "sideways"}, []string{"--cascade", "sideways", "foreground"}, 0},
		{[]string{"cascade", "a/b", "-o", "xml"}, []string{"--output", "xml"}, 0},
		{[]string{"cascade", "a", "b", "--kubeconfig", "/nowhere"}, []string{"kubeconfig", "/nowhere"}, exitError},
		{[]string{"cascade", "a/b", "--kubeconfig", noServer(t)}, []string{"127.0.0.1:1"}, exitError},
		{[]string{"cascade", "a/b", "--kubeconfig", kubeconfigFor(t, "http://192.0.2.1")}, []string{"proxyconnect", "127.0.0.1:2"}, exitError},
		{[]string{"version", "--agents", "--kubeconfig", kubeconfigFor(t, "http://192.0.2.1")}, []string{"proxyconnect", "127.0.0.1:2"}, exitError},
		{[]string{"version", "-o", "xml"}, []string{"--output", "xml"}, 0},
		{[]string{"version", "--agents", "--kubeconfig", noServer(t)}, []string{"list the agents' pods"}, exitError},
		{[]string{"orphans", "shop"}, []string{"shop"}, 0},
		{[]string{"orphans", "-A", "-n", "shop"}, []string{"namespace", "all-namespaces"}, 0},
		{[]string{"orphans", "-o", "xml"}, []string{"--output", "xml"}, 0},
		{[]string{"orphans", "--older-than", "-1s"}, []string{"--older-than", "-1s"}, 0},
		{[]string{"orphans", "--release-history", "0"}, []string{"--release-history"}, 0},
		{[]string{"orphans", "--kubeconfig", "/nowhere"}, []string{"kubeconfig", "/nowhere"}, exitError},
		{[]string{"orphans", "--context", "nobody", "--kubeconfig", noServer(t)}, []string{"nobody"}, exitError},
	} {
		var out bytes.Buffer
		err := run(context.Background(), c.args, &out, &out)
		var code exitCode
		if ran := errors.As(err, &code); ran != (c.want == nil) {
			t.Errorf("%q: %v", c.args, err)
			continue
		}
		if c.want != nil && codeOf(err) != cmp.Or(c.code, exitUsage) {
			t.Errorf("%q: exit code %d: %v", c.args, codeOf(err), err)
		}
		if c.want == nil && code != exitFindings { // there is no runtime
			t.Errorf("%q: exit code %d\n%s", c.args, code, out.String())
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: the error does not say %q:\n%v", c.args, want, err)
			}
		}
	}
}

// TestJSONIsTheSame: both outputs have the same checks.
func TestJSONIsTheSame(t *testing.T) {
	config := aside(t)
	var asText, asJSON bytes.Buffer
	var code exitCode
	for output, to := range map[string]*bytes.Buffer{"text": &asText, "json": &asJSON} {
		err := run(context.Background(), []string{"doctor", "--config", config, "--skip-probes", "--output", output}, to, to)
		if !errors.As(err, &code) {
			t.Fatal(err)
		}
	}
	var report doctor.Report
	dec := json.NewDecoder(&asJSON)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&report); err != nil {
		t.Fatal(err)
	}
	if report.Format != 1 || report.Config != config || len(report.Checks) < 10 {
		t.Errorf("%+v", report)
	}
	flat := strings.Join(strings.Fields(asText.String()), " ")
	for _, c := range report.Checks {
		if !strings.Contains(flat, c.Found) {
			t.Errorf("%s is not in the text: %s\n%s", c.ID, c.Found, flat)
		}
	}
	if !strings.HasSuffix(strings.TrimSpace(asText.String()), report.Verdict()) {
		t.Errorf("the text does not end with %q", report.Verdict())
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out bytes.Buffer
	err := run(ctx, []string{"doctor", "--config", aside(t), "--skip-probes"}, &out, &out)
	if !errors.Is(err, context.Canceled) || out.Len() > 0 {
		t.Errorf("error %v, output %q", err, out.String())
	}
}

// TestDependencies: what this command links must not cost the agent anything,
// and tools must not come to a node.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}}", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		for banned, why := range map[string]string{
			"github.com/ebb-agent/ebb/tools":        "development tools",
			"github.com/ebb-agent/ebb/runtime/fake": "a fake",
			// Kubeconfigs with all their ways to log in are client-go's; of the API it is
			// asked for metadata alone.
			"k8s.io/client-go/kubernetes": "typed clients and schemes: tens of MiB",
			"k8s.io/client-go/discovery":  "it links them, too",
			"k8s.io/client-go/dynamic":    "runtime/kube/metadata does that",
			"k8s.io/api":                  "nothing here decodes typed objects",
			"testing":                     "keeps test code alive in the binary",
		} {
			if dep == "k8s.io/api/core/v1" {
				continue // client-go/tools/remotecommand has the names of exec's streams from there
			}
			if dep == banned || strings.HasPrefix(dep, banned+"/") {
				t.Errorf("ebb links %s: %s", dep, why)
			}
		}
	}
}

// TestUninstallFlags: hooks get their flags from the environment; the command line wins,
// and what is wrong is named as it was given.
func TestUninstallFlags(t *testing.T) {
	for _, sub := range []string{"check", "unload"} {
		var out bytes.Buffer
		if err := run(context.Background(), []string{"uninstall", sub, "--help"}, &out, &out); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"ebb uninstall " + sub, "Examples:", "--kubeconfig", "--node"} {
			if want == "--node" && sub == "check" {
				want = "--leave-node"
			}
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s --help does not mention %q", sub, want)
			}
		}
	}
	t.Setenv("EBB_UNINSTALL_OUTPUT", "yaml")
	t.Setenv("EBB_UNINSTALL_NAMESPACE", "ebb")
	t.Setenv("EBB_UNINSTALL_IMAGE", "i")
	t.Setenv("EBB_UNINSTALL_KUBECONFIG", "/nowhere")
	for _, c := range []struct {
		args string
		env  map[string]string
		want string
	}{
		{"check", nil, `"yaml" is none of text, json`},
		{"check -o json", nil, "/nowhere"},
		{"unload -o text", nil, "/nowhere"},
		{"unload --namespace=", nil, "--namespace"},
		{"unload --template /no-template", nil, "/no-template"},
		{"check", map[string]string{"EBB_UNINSTALL_AGENT": "perhaps"}, "EBB_UNINSTALL_AGENT"},
		{"check", map[string]string{"EBB_UNINSTALL_WAIT": "soon"}, "EBB_UNINSTALL_WAIT"},
		{"everything", nil, "everything"},
		{"unload --image=", nil, "--image"},
		{"unload --node-selector a=b=c", nil, "--node-selector"},
	} {
		t.Run(c.args, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			var out bytes.Buffer
			err := run(context.Background(), append([]string{"uninstall"}, strings.Fields(c.args)...), &out, &out)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if usage := c.want != "/nowhere"; (codeOf(err) == exitUsage) != usage {
				t.Errorf("exit code %d: %v", codeOf(err), err)
			}
		})
	}
}
