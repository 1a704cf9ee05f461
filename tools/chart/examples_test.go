package chart

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const examples = "deploy/chart/examples"

// renderFile renders the chart with values files.
func renderFile(t *testing.T, files ...string) map[string]object {
	t.Helper()
	h, err := helm()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--set", "controller.enabled=true"}
	for _, file := range files {
		args = append(args, "--values", file)
	}
	list, err := h.Template(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return objectsOf(t, list)
}

// TestExamples: each gives what these values give, and nothing else.
func TestExamples(t *testing.T) {
	t.Parallel()
	wants := map[string][]string{
		"observe.yaml": {"image.repository=registry.example/team/ebb", "podMonitor.enabled=true", "podMonitor.labels.release=monitoring",
			"prometheusRule.enabled=true", "prometheusRule.labels.release=monitoring", "dashboard.enabled=true"},
		"canary-then-enforce.yaml": {"agent.profiles.canary.mode=enforce", "agent.config.images.maxRemovalsPerHour=20",
			"agent.config.images.keep={registry.example/base/**}"},
		"hand-over-kubeadm.yaml": {"agent.mode=enforce", "agent.hostPID=true", "agent.config.kubelet.imageGCHighThresholdPercent=100", "podMonitor.enabled=true", "podMonitor.labels.release=monitoring",
			"prometheusRule.enabled=true", "prometheusRule.optional=true", "prometheusRule.labels.release=monitoring"},
	}
	files, err := filepath.Glob(filepath.Join(root, examples, "*.yaml"))
	if err != nil || len(files) != len(wants) {
		t.Fatalf("examples: %q, %v", files, err)
	}
	for _, file := range files {
		if diff := cmp.Diff(render(t, wants[filepath.Base(file)]...), renderFile(t, file)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// TestGitOps: the values of the page's manifests are ones of the chart, and their values files are there.
func TestGitOps(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs/gitops.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := render(t, "image.repository=registry.example/team/ebb", "podMonitor.enabled=true", "podMonitor.labels.release=monitoring",
		"prometheusRule.enabled=true", "prometheusRule.labels.release=monitoring", "dashboard.enabled=true")
	kinds := map[string]int{}
	for _, block := range yamlBlock.FindAllSubmatch(page, -1) {
		for text := range bytes.SplitSeq(block[1], []byte("---\n")) {
			var o object
			if err := yaml.UnmarshalStrict(text, &o); err != nil {
				t.Fatalf("%v:\n%s", err, text)
			}
			kind := at[string](o, "kind")
			kinds[kind]++
			var files []any
			var values object
			dir := root
			switch kind {
			case "Application":
				dir = filepath.Join(root, at[string](o, "spec", "source", "path"))
				files, values = at[[]any](o, "spec", "source", "helm", "valueFiles"), at[object](o, "spec", "source", "helm", "valuesObject")
			case "HelmRelease":
				files, values = at[[]any](o, "spec", "chart", "spec", "valuesFiles"), at[object](o, "spec", "values")
			default:
				continue
			}
			var list []string
			for _, name := range files {
				list = append(list, filepath.Join(dir, name.(string)))
			}
			raw, err := yaml.Marshal(values)
			if err != nil {
				t.Fatal(err)
			}
			own := filepath.Join(t.TempDir(), "values.yaml")
			if err := os.WriteFile(own, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, renderFile(t, append(list, own)...)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", kind, diff)
			}
		}
	}
	if diff := cmp.Diff(map[string]int{"Namespace": 1, "Application": 1, "GitRepository": 1, "HelmRelease": 1}, kinds); diff != "" {
		t.Errorf("manifests (-want +got):\n%s", diff)
	}
}
