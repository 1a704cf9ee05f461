package prometheus

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/tools/prometheus"
)

// pod returns the labels that Kubernetes' discovery gives to a port of a pod.
func pod(port, name, node, portName string, labels map[string]string) map[string]any {
	meta := map[string]string{
		"__meta_kubernetes_pod_name": name, "__meta_kubernetes_pod_node_name": node,
		"__meta_kubernetes_pod_container_port_name": portName, "__meta_kubernetes_namespace": "ebb-system",
	}
	for k, v := range labels {
		meta["__meta_kubernetes_pod_label_"+k] = v
	}
	return map[string]any{"targets": []string{"127.0.0.1:" + port}, "labels": meta}
}

func ebb(component string) map[string]string {
	return map[string]string{"app_kubernetes_io_name": "ebb", "app_kubernetes_io_component": component}
}

// Debian's Prometheus has no discovery of Kubernetes: the test puts a file with the
// same labels in its place, and leaves all else as it is. Ports are those that nobody
// listens on.
func TestConfigurationFindsTargets(t *testing.T) {
	needPrometheus(t)
	var config map[string]any
	read(t, "prometheus.yml", &config)
	dir := t.TempDir()
	for _, job := range config["scrape_configs"].([]any) {
		job := job.(map[string]any)
		want := []any{map[string]any{"role": "pod"}}
		if diff := cmp.Diff(want, job["kubernetes_sd_configs"]); diff != "" {
			t.Errorf("%v: discovery (-want +got):\n%s", job["job_name"], diff)
		}
		delete(job, "kubernetes_sd_configs")
		job["file_sd_configs"] = []any{map[string]any{"files": []string{"pods.json"}}}
	}
	pods, err := json.Marshal([]any{
		pod("1", "ebb-agent-x", "worker-1", "metrics", ebb("agent")),
		pod("2", "ebb-agent-y", "worker-2", "metrics", ebb("agent")),
		pod("3", "ebb-agent-y", "worker-2", "other", ebb("agent")),
		pod("4", "ebb-controller-x", "worker-1", "metrics", ebb("controller")),
		pod("5", "ebb-unload-x", "worker-1", "metrics", ebb("unload")),
		pod("6", "web-1", "worker-1", "metrics", map[string]string{"app_kubernetes_io_name": "web", "app_kubernetes_io_component": "agent"}),
		pod("7", "web-2", "worker-1", "metrics", nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile("rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"pods.json": pods, "rules.yaml": rules, "config.yml": text} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := prometheus.Promtool(t.Context(), dir, "check", "config", "config.yml"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s, err := prometheus.Start(ctx, dir, string(text))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	awaitTargets(ctx, t, s, map[string]map[string]string{
		"127.0.0.1:1": {"job": "ebb-agent", "instance": "127.0.0.1:1", "node": "worker-1"},
		"127.0.0.1:2": {"job": "ebb-agent", "instance": "127.0.0.1:2", "node": "worker-2"},
		"127.0.0.1:4": {"job": "ebb-controller", "instance": "127.0.0.1:4", "pod": "ebb-controller-x"},
	})
}

func awaitTargets(ctx context.Context, t *testing.T, s *prometheus.Server, want map[string]map[string]string) {
	t.Helper()
	for {
		targets, err := s.Targets(ctx)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]map[string]string{}
		for _, target := range targets {
			labels := map[string]string{}
			for name, value := range target.Labels {
				labels[string(name)] = string(value)
			}
			got[labels["instance"]] = labels
		}
		if maps.EqualFunc(got, want, func(a, b map[string]string) bool { return maps.Equal(a, b) }) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("targets (-want +got):\n%s", cmp.Diff(want, got))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
