package chart

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// The fields of the Prometheus Operator's objects that the chart sets, with their
// types: github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1,
// v0.95 (podmonitor_types.go, types.go, prometheusrule_types.go). No operator runs
// here, so a field that is not of these is all that can be noticed.
type (
	podMonitor struct {
		APIVersion, Kind string
		Metadata         json.RawMessage
		Spec             struct {
			Selector            struct{ MatchLabels map[string]string }
			PodMetricsEndpoints []struct {
				Port, Path, Interval string
				HonorLabels          bool
				Relabelings          []struct {
					SourceLabels             []string
					TargetLabel, Replacement string
				}
			}
		}
	}
	prometheusRule struct {
		APIVersion, Kind string
		Metadata         json.RawMessage
		Spec             struct {
			Groups []struct {
				Name, Interval string
				Rules          []struct {
					Record, Alert, Expr, For string
					KeepFiringFor            string `json:"keep_firing_for"`
					Labels, Annotations      map[string]string
				}
			}
		}
	}
)

// strictly converts an object, and refuses fields that T has not.
func strictly[T any](t *testing.T, o object) (v T) {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	return v
}

// TestPodMonitors: they choose the pods that there are, by the port that those have,
// and name what rules and dashboard ask for.
func TestPodMonitors(t *testing.T) {
	objects := render(t, "podMonitor.enabled=true", "podMonitor.interval=15s", "podMonitor.labels.release=prometheus")
	for component, workload := range map[string]string{"agent": "DaemonSet/ebb-agent", "controller": "Deployment/ebb-controller"} {
		m := strictly[podMonitor](t, objects["PodMonitor/ebb-"+component])
		pod := at[object](objects[workload], "spec", "template")
		labels := at[object](pod, "metadata", "labels")
		for k, v := range m.Spec.Selector.MatchLabels {
			if labels[k] != v {
				t.Errorf("%s: chooses %s=%s, and the pod has %v", component, k, v, labels[k])
			}
		}
		if len(m.Spec.Selector.MatchLabels) == 0 || len(m.Spec.PodMetricsEndpoints) != 1 {
			t.Fatalf("%s: %+v", component, m.Spec)
		}
		e := m.Spec.PodMetricsEndpoints[0]
		containers := convert[struct {
			Containers []struct{ Ports []struct{ Name string } }
		}](t, at[object](pod, "spec"))
		if e.Port != containers.Containers[0].Ports[0].Name || e.Path != "/metrics" || e.Interval != "15s" || e.HonorLabels != (component == "agent") {
			t.Errorf("%s: %+v", component, e)
		}
		set := make(map[string]string)
		for _, r := range e.Relabelings {
			set[r.TargetLabel] = r.Replacement + strings.Join(r.SourceLabels, ",")
		}
		want := map[string]string{"job": "ebb-" + component}
		if component == "agent" {
			want["node"] = "__meta_kubernetes_pod_node_name"
		}
		if diff := cmp.Diff(want, set); diff != "" {
			t.Errorf("%s: labels (-want +got):\n%s", component, diff)
		}
	}
	for _, off := range []string{"agent", "controller"} {
		if objects := render(t, "podMonitor.enabled=true", off+".enabled=false"); objects["PodMonitor/ebb-"+off] != nil {
			t.Errorf("a monitor for no %s", off)
		}
	}
}

// TestPrometheusRule: it has the rules as they are written, for what is installed.
func TestPrometheusRule(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "deploy/prometheus/rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var written object
	if err := yaml.Unmarshal(data, &written); err != nil {
		t.Fatal(err)
	}
	whole := render(t, "prometheusRule.enabled=true")["PrometheusRule/ebb"]
	strictly[prometheusRule](t, whole)
	if diff := cmp.Diff(written["groups"], at[any](whole, "spec", "groups")); diff != "" {
		t.Errorf("deploy/prometheus/rules.yaml and the PrometheusRule (-file +chart):\n%s", diff)
	}
	for off, prefix := range map[string]string{"controller": "ebb-controller", "agent": "ebb-agent"} {
		r := strictly[prometheusRule](t, render(t, "prometheusRule.enabled=true", off+".enabled=false")["PrometheusRule/ebb"])
		if len(r.Spec.Groups) == 0 {
			t.Errorf("without %s there are no rules", off)
		}
		for _, g := range r.Spec.Groups {
			if strings.HasPrefix(g.Name, prefix) {
				t.Errorf("without %s there is group %s", off, g.Name)
			}
		}
	}
}

// TestDashboard: the ConfigMap has it, where a sidecar finds it.
func TestDashboard(t *testing.T) {
	want, err := os.ReadFile(filepath.Join(root, "deploy/grafana/ebb.json"))
	if err != nil {
		t.Fatal(err)
	}
	o := render(t, "dashboard.enabled=true", "dashboard.annotations.grafana_folder=ebb")["ConfigMap/ebb-dashboard"]
	var wants, got any
	if err := json.Unmarshal(want, &wants); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(at[string](o, "data", "ebb.json")), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wants, got); diff != "" {
		t.Errorf("(-file +chart):\n%s", diff)
	}
	if at[object](o, "metadata", "labels")["grafana_dashboard"] != "1" {
		t.Errorf("no sidecar would find it: %v", o["metadata"])
	}
}

// TestAdmission: off, warn and deny are what deploy/admission has.
func TestAdmission(t *testing.T) {
	for mode, want := range map[string][]any{"off": nil, "warn": {"Warn", "Audit"}, "deny": {"Deny", "Audit"}} {
		objects := render(t, "admission.mode="+mode)
		got := at[[]any](objects["ValidatingAdmissionPolicyBinding/ebb-owner-references"], "spec", "validationActions")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", mode, diff)
		}
		if (objects["ValidatingAdmissionPolicy/ebb-owner-references"] != nil) != (mode != "off") {
			t.Errorf("%s: policy %v", mode, objects["ValidatingAdmissionPolicy/ebb-owner-references"])
		}
	}
}
