package chart

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/agent/cluster/config"
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
				Port, Path, Interval, Scheme string
				HonorLabels                  bool
				TLSConfig                    *struct {
					CA                 struct{ Secret secretKey }
					ServerName         string
					InsecureSkipVerify bool
				}
				BasicAuth *struct{ Username, Password secretKey }

				Relabelings, MetricRelabelings []relabeling
			}
		}
	}
	secretKey  struct{ Name, Key string }
	relabeling struct {
		SourceLabels                            []string
		TargetLabel, Replacement, Regex, Action string
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
	t.Parallel()
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

// groupsOf are the groups of rules in files of deploy/prometheus.
func groupsOf(t *testing.T, files ...string) (groups []any) {
	t.Helper()
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(root, "deploy/prometheus", name))
		if err != nil {
			t.Fatal(err)
		}
		var written object
		if err := yaml.Unmarshal(data, &written); err != nil {
			t.Fatal(err)
		}
		groups = append(groups, written["groups"].([]any)...)
	}
	return groups
}

// TestProtectedMetrics: the Secret is mounted where the program looks for the file, and the
// PodMonitor asks as the file wants; what has no Secret is asked plainly, and probes always are.
func TestProtectedMetrics(t *testing.T) {
	t.Parallel()
	for component, workload := range map[string]string{"agent": "DaemonSet/ebb-agent", "controller": "Deployment/ebb-controller"} {
		objects := render(t, "podMonitor.enabled=true", component+".metrics.webConfigSecret=web", "podMonitor.tlsConfig.ca.secret.name=ca",
			"podMonitor.tlsConfig.ca.secret.key=ca.crt", "podMonitor.tlsConfig.serverName=ebb", "podMonitor.basicAuth.username.name=user",
			"podMonitor.basicAuth.username.key=name", "podMonitor.basicAuth.password.name=user", "podMonitor.basicAuth.password.key=password")
		var file string
		if component == "agent" {
			file = agentConfig(t, objects).Server.WebConfigFile
		} else if c, err := config.Parse([]byte(at[string](objects["ConfigMap/ebb-controller"], "data", "controller.yaml"))); err != nil {
			t.Error(err)
		} else {
			file = c.Server.WebConfigFile
		}
		pod := convert[struct {
			Volumes []struct {
				Name   string
				Secret struct{ SecretName string }
			}
			Containers []struct {
				Ports                         []struct{ Name string }
				VolumeMounts                  []named
				LivenessProbe, ReadinessProbe struct{ HTTPGet struct{ Port, Scheme string } }
			}
		}](t, at[any](objects[workload], "spec", "template", "spec"))
		mounted := make(map[string]string)
		for _, m := range pod.Containers[0].VolumeMounts {
			mounted[m.Name] = m.MountPath
		}
		for _, v := range pod.Volumes {
			if v.Secret.SecretName == "web" && file != mounted[v.Name]+"/web.yml" {
				t.Errorf("%s: the file is %q, and the Secret at %q", component, file, mounted[v.Name])
			}
		}
		if mounted["web"] == "" {
			t.Errorf("%s: the Secret is not mounted", component)
		}
		c := pod.Containers[0]
		for _, probe := range []struct{ HTTPGet struct{ Port, Scheme string } }{c.LivenessProbe, c.ReadinessProbe} {
			if c.Ports[1].Name != "health" || probe.HTTPGet.Port != "health" || probe.HTTPGet.Scheme != "" {
				t.Errorf("%s: a probe asks %+v", component, probe.HTTPGet)
			}
		}
		for _, name := range []string{"agent", "controller"} {
			e := strictly[podMonitor](t, objects["PodMonitor/ebb-"+name]).Spec.PodMetricsEndpoints[0]
			switch {
			case name != component && (e.Scheme != "" || e.TLSConfig != nil || e.BasicAuth != nil):
				t.Errorf("%s has no Secret, and is asked with %+v", name, e)
			case name == component && (e.Scheme != "https" || e.TLSConfig == nil || e.TLSConfig.CA.Secret != secretKey{"ca", "ca.crt"} || e.TLSConfig.ServerName != "ebb" ||
				e.BasicAuth == nil || e.BasicAuth.Password != secretKey{"user", "password"}):
				t.Errorf("%s is asked with %+v", name, e)
			}
		}
	}
	plain := render(t, "podMonitor.enabled=true", "podMonitor.scheme=http", "agent.metrics.webConfigSecret=web")
	if e := strictly[podMonitor](t, plain["PodMonitor/ebb-agent"]).Spec.PodMetricsEndpoints[0]; e.Scheme != "http" {
		t.Errorf("with passwords alone: %+v", e)
	}
}

// TestHealthAddress: in the node's network health is for the node alone.
func TestHealthAddress(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{"": "127.0.0.1:9480", "agent.hostNetwork=false": ":9480", "agent.hostNetwork=false,agent.metrics.open=false,agent.health.port=1": ":1"} {
		if got := agentConfig(t, render(t, set)).Server.HealthAddress; got != want {
			t.Errorf("%q: %q, want %q", set, got, want)
		}
	}
}

// TestNodeIP: in the node's network the port of metrics listens on the node's address alone.
func TestNodeIP(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]bool{
		"": true, "agent.metrics.everyAddress=true": false, "agent.metrics.open=false": false, "agent.hostNetwork=false": false,
	} {
		got := slices.Contains(containerOf(t, render(t, set)["DaemonSet/ebb-agent"]).Env, named{Name: "NODE_IP"})
		if got != want {
			t.Errorf("%q: NODE_IP is set: %v, want %v", set, got, want)
		}
	}
}

// TestRelabelings: those of the values come after the chart's own.
func TestRelabelings(t *testing.T) {
	t.Parallel()
	objects := render(t, "podMonitor.enabled=true", "podMonitor.relabelings[0].targetLabel=cluster", "podMonitor.relabelings[0].replacement=a",
		"podMonitor.metricRelabelings[0].sourceLabels={__name__}", "podMonitor.metricRelabelings[0].regex=go_.*", "podMonitor.metricRelabelings[0].action=drop")
	for name, own := range map[string]int{"agent": 2, "controller": 1} {
		e := strictly[podMonitor](t, objects["PodMonitor/ebb-"+name]).Spec.PodMetricsEndpoints[0]
		if len(e.Relabelings) != own+1 || e.Relabelings[own].TargetLabel != "cluster" || e.Relabelings[0].Replacement != "ebb-"+name {
			t.Errorf("%s: %+v", name, e.Relabelings)
		}
		if diff := cmp.Diff([]relabeling{{SourceLabels: []string{"__name__"}, Regex: "go_.*", Action: "drop"}}, e.MetricRelabelings); diff != "" {
			t.Errorf("%s, of metrics (-want +got):\n%s", name, diff)
		}
	}
}

// TestPrometheusRule: it has the rules as they are written, for what is installed.
func TestPrometheusRule(t *testing.T) {
	t.Parallel()
	for optional, files := range map[string][]string{"false": {"rules.yaml"}, "true": {"rules.yaml", "optional.yaml"}} {
		whole := render(t, "prometheusRule.enabled=true", "prometheusRule.optional="+optional)["PrometheusRule/ebb"]
		strictly[prometheusRule](t, whole)
		if diff := cmp.Diff(groupsOf(t, files...), at[[]any](whole, "spec", "groups")); diff != "" {
			t.Errorf("%v of deploy/prometheus and the PrometheusRule (-files +chart):\n%s", files, diff)
		}
	}
	labelled := strictly[prometheusRule](t, render(t, "prometheusRule.enabled=true", "prometheusRule.optional=true", "prometheusRule.alertLabels.cluster=prod-1", "prometheusRule.alertLabels.severity=none")["PrometheusRule/ebb"])
	for _, g := range labelled.Spec.Groups {
		for _, r := range g.Rules {
			if alert := r.Alert != ""; alert != (r.Labels["cluster"] == "prod-1") || r.Labels["severity"] == "none" {
				t.Errorf("%s%s has the labels %v", r.Alert, r.Record, r.Labels)
			}
		}
	}
	for off, prefix := range map[string]string{"controller": "ebb-controller", "agent": "ebb-agent"} {
		r := strictly[prometheusRule](t, render(t, "prometheusRule.enabled=true", "prometheusRule.optional=true", off+".enabled=false")["PrometheusRule/ebb"])
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

// TestDashboards: the ConfigMap has each of deploy/grafana, where a sidecar finds it.
func TestDashboards(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "deploy/grafana/*.json"))
	if err != nil {
		t.Fatal(err)
	}
	o := render(t, "dashboard.enabled=true", "dashboard.annotations.grafana_folder=ebb")["ConfigMap/ebb-dashboard"]
	if data := at[object](o, "data"); len(files) == 0 || len(data) != len(files) {
		t.Errorf("%d dashboards for %d files", len(data), len(files))
	}
	for _, file := range files {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		key := "ebb-" + filepath.Base(file)
		var wants, got any
		if err := json.Unmarshal(want, &wants); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(at[string](o, "data", key)), &got); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		if diff := cmp.Diff(wants, got); diff != "" {
			t.Errorf("%s (-file +chart):\n%s", key, diff)
		}
	}
	if at[object](o, "metadata", "labels")["grafana_dashboard"] != "1" {
		t.Errorf("no sidecar would find it: %v", o["metadata"])
	}
}

// TestAdmission: off, warn and deny are what deploy/admission has.
func TestAdmission(t *testing.T) {
	t.Parallel()
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
