package chart

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	nodeconfig "github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/policy/image"
)

const root = "../.."

// helm is built once, by the first test that needs it.
var helm = sync.OnceValues(func() (*Helm, error) { return Build(context.Background(), root) })

type object = map[string]any

// render renders the chart with the controller and "name=value" as --set takes it, and returns the
// objects by kind and name.
func render(t *testing.T, set ...string) map[string]object {
	t.Helper()
	h, err := helm()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--set", "controller.enabled=true"}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	list, err := h.Template(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return objectsOf(t, list)
}

// objectsOf are what documents say, by kind and name.
func objectsOf(t *testing.T, list []Document) map[string]object {
	t.Helper()
	objects := make(map[string]object)
	for _, d := range list {
		var o object
		if err := yaml.UnmarshalStrict(d.Text, &o); err != nil {
			t.Fatalf("%s: %v\n%s", d.Template, err, d.Text)
		}
		key := o["kind"].(string) + "/" + at[string](o, "metadata", "name")
		if objects[key] != nil {
			t.Fatalf("%s is there twice", key)
		}
		objects[key] = o
	}
	return objects
}

// at is what is at a path of mappings; the zero value if nothing is.
func at[T any](o object, path ...string) T {
	for _, name := range path[:len(path)-1] {
		o, _ = o[name].(object)
	}
	v, _ := o[path[len(path)-1]].(T)
	return v
}

// TestGeneratedFilesAreUpToDate: what is committed is what is made.
func TestGeneratedFilesAreUpToDate(t *testing.T) {
	t.Parallel()
	files, err := Inputs(root)
	if err != nil {
		t.Fatal(err)
	}
	h, err := helm()
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := h.Manifests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range manifests {
		files[filepath.Join(ManifestDir, name)] = text
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Errorf("%v: run make manifests", err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is not what is made: run make manifests\n%s", name, cmp.Diff(string(got), string(want)))
		}
	}
	for _, dir := range []string{"", "controller", "enforce", "uninstall"} {
		there, err := filepath.Glob(filepath.Join(root, ManifestDir, dir, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range there {
			if manifests[filepath.Join(dir, filepath.Base(file))] == nil {
				t.Errorf("%s is not made any more: run make manifests", file)
			}
		}
	}
}

// agentConfig is the agent's configuration as ebb-agent itself reads it.
func agentConfig(t *testing.T, objects map[string]object) nodeconfig.Config {
	t.Helper()
	text := at[string](objects["ConfigMap/ebb-agent"], "data", "agent.yaml")
	c, err := nodeconfig.Parse([]byte(text))
	if err != nil || text == "" {
		t.Fatalf("the agent refuses its configuration: %v\n%s", err, text)
	}
	return c
}

func TestAgentConfig(t *testing.T) {
	t.Parallel()
	want := nodeconfig.Default()
	want.Mode = nodeconfig.ModeObserve
	want.Images.Keep = []string{"ghcr.io/ebb-agent/ebb"}
	want.Pods.Source = nodeconfig.PodsFromAPIServer
	want.Server.Address, want.Server.HealthAddress = ":9478", "127.0.0.1:9480"
	want.Runtime.Socket = "/run/containerd/containerd.sock"
	if diff := cmp.Diff(want, agentConfig(t, render(t))); diff != "" {
		t.Errorf("by default (-want +got):\n%s", diff)
	}

	want.Mode = nodeconfig.ModeEnforce
	want.Images.HighThresholdPercent = 70
	want.Images.LowThresholdPercent = 60
	want.Images.Keep = []string{"registry.k8s.io/**", "ghcr.io/ebb-agent/ebb"}
	want.Server.Address = "127.0.0.1:9999" // health stays where it is
	want.Runtime.Socket = "/run/k3s/containerd/containerd.sock"
	want.Filesystems.PodLogs.Path = ""
	want.Writers.Top = 10
	got := agentConfig(t, render(t, "agent.mode=enforce", "agent.layout=k3s", "agent.metrics.open=false", "agent.metrics.port=9999",
		"agent.config.images.imageGCHighThresholdPercent=70", "agent.config.images.imageGCLowThresholdPercent=60",
		"agent.config.images.keep={registry.k8s.io/**}", "agent.config.filesystems.podLogs.path=", "agent.config.writers.top=10"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with values (-want +got):\n%s", diff)
	}
}

func TestControllerConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set  []string
		want func(*config.Config)
	}{
		{nil, func(*config.Config) {}},
		{[]string{"controller.mode=enforce", "controller.config.circuitBreaker.deletions=2000000", "controller.config.exclude.namespaces={a,b}"},
			func(c *config.Config) {
				c.Mode, c.CircuitBreaker.Deletions, c.Exclude.Namespaces = config.Enforce, 2000000, []string{"a", "b"}
			}},
	} {
		want := config.Default()
		want.Mode = config.Observe
		want.Server.Address, want.Server.HealthAddress = ":9479", ":9481"
		c.want(&want)
		text := at[string](render(t, c.set...)["ConfigMap/ebb-controller"], "data", "controller.yaml")
		got, err := config.Parse([]byte(text))
		if err != nil {
			t.Fatalf("the controller refuses its configuration: %v\n%s", err, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.set, diff)
		}
	}
}

// TestModes: each program observes unless its own value is enforce, whatever else is
// set, and enforcing one does not arm the other.
func TestModes(t *testing.T) {
	t.Parallel()
	configured := map[string][]string{
		"alone":                   nil,
		"both configured":         {"agent.config.writers.top=10", "agent.config.images.keep={a}", "controller.config.paused=false", "controller.config.circuitBreaker.deletions=5"},
		"shared values":           {"agent.layout=k3s", "agent.metrics.open=false", "controller.replicas=1", "apiServer.host=10.0.0.1", "apiServer.port=6443"},
		"with the others' fields": {"agent.config.log.level=debug", "controller.config.log.level=debug"},
	}
	for name, more := range configured {
		for _, c := range []struct {
			set        []string
			agent      nodeconfig.Mode
			controller config.Mode
		}{
			{nil, nodeconfig.ModeObserve, config.Observe},
			{[]string{"agent.mode=enforce"}, nodeconfig.ModeEnforce, config.Observe},
			{[]string{"controller.mode=enforce"}, nodeconfig.ModeObserve, config.Enforce},
			{[]string{"agent.mode=enforce", "controller.mode=enforce"}, nodeconfig.ModeEnforce, config.Enforce},
		} {
			objects := render(t, append(c.set, more...)...)
			controller, err := config.Parse([]byte(at[string](objects["ConfigMap/ebb-controller"], "data", "controller.yaml")))
			if err != nil {
				t.Fatal(err)
			}
			if agent := agentConfig(t, objects); agent.Mode != c.agent || controller.Mode != c.controller {
				t.Errorf("%s, %v: the agent is to %s, the controller to %s", name, c.set, agent.Mode, controller.Mode)
			}
		}
	}
}

// TestNextVersionIsKept: whatever the image is called, a keep rule matches what
// containerd calls its next version.
func TestNextVersionIsKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ repository, reference string }{
		{"ghcr.io/ebb-agent/ebb", "ghcr.io/ebb-agent/ebb"},
		{"ebb", "docker.io/library/ebb"},
		{"me/ebb", "docker.io/me/ebb"},
		{"localhost/ebb", "localhost/ebb"},
		{"localhost:5000/ebb", "localhost:5000/ebb"},
		{"registry:5000/a/b/ebb", "registry:5000/a/b/ebb"},
		{"10.0.0.1/ebb", "10.0.0.1/ebb"},
		{"ghcr.io/ebb-agent/ebb,image.registry=mirror:5000", "mirror:5000/ebb-agent/ebb"},
		{"ghcr.io/ebb-agent/ebb,global.imageRegistry=mirror.example/hub", "mirror.example/hub/ebb-agent/ebb"},
		{"me/ebb,global.imageRegistry=all.example,image.registry=mine.example", "mine.example/me/ebb"},
		{"ebb,image.registry=mine.example", "mine.example/ebb"},
	} {
		objects := render(t, "image.repository="+c.repository, "agent.config.images.keep={other}")
		text := at[string](objects["ConfigMap/ebb-agent"], "data", "agent.yaml")
		for _, key := range []string{"DaemonSet/ebb-agent", "Deployment/ebb-controller"} {
			containers := at[object](objects[key], "spec", "template", "spec")["containers"].([]any)
			name := containers[0].(object)["image"].(string)
			if strings.Contains(c.repository, ",") && !strings.HasPrefix(name, c.reference+":") {
				t.Errorf("repository %s: %s runs %s", c.repository, key, name)
			}
		}
		parsed, err := nodeconfig.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		rules, err := image.ParseKeepRules(parsed.Images.Keep)
		if err != nil {
			t.Fatal(err)
		}
		digest := "@sha256:" + strings.Repeat("a", 64)
		for _, next := range []string{c.reference + ":9.9.9", c.reference + digest, c.reference + ":9.9.9" + digest} {
			kept := false
			for _, rule := range rules {
				kept = kept || rule.Match(next)
			}
			if !kept {
				t.Errorf("repository %s: %s would not be kept by %q", c.repository, next, parsed.Images.Keep)
			}
		}
	}
}
