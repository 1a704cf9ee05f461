package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"sigs.k8s.io/yaml"
)

// This file does what the Prometheus Operator does with the objects that the chart creates,
// because Debian does not package the operator. The Prometheus is real.

// stack is the name of a kube-prometheus-stack release. Its Prometheus selects monitors and
// rules by the label release.
const stack = "monitoring"

// operatorTypes are the operator's CRDs without their schemas: tools/chart checks the
// fields.
const operatorTypes = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: podmonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {plural: podmonitors, singular: podmonitor, kind: PodMonitor, listKind: PodMonitorList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: prometheusrules.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {plural: prometheusrules, singular: prometheusrule, kind: PrometheusRule, listKind: PrometheusRuleList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

const prometheusDir = "/etc/prometheus/ebb"

type podMonitor struct {
	Metadata struct{ Name, Namespace string }
	Spec     struct {
		Selector            struct{ MatchLabels map[string]string }
		PodMetricsEndpoints []struct {
			Port, Path, Scheme string
			HonorLabels        bool
			TLSConfig          *struct {
				CA         struct{ Secret secretKey }
				ServerName string
			}
			BasicAuth   *struct{ Username, Password secretKey }
			Relabelings []struct {
				SourceLabels             []string
				TargetLabel, Replacement string
			}
		}
	}
}

type secretKey struct{ Name, Key string }

type object = map[string]any

// operate configures Prometheus from the present PodMonitors, PrometheusRules and pods.
func (b *fixture) operate() {
	var monitors struct{ Items []podMonitor }
	b.get(&monitors, "podmonitors", "--all-namespaces", "--selector=release="+stack)
	var jobs []object
	for _, m := range monitors.Items {
		jobs = append(jobs, b.scrapeJobs(m)...)
	}
	b.writeRules()
	config := need(yaml.Marshal(object{
		"global":         object{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files":     []string{prometheusDir + "/rules/*"},
		"scrape_configs": jobs,
	}))
	file := filepath.Join(prometheusDir, "prometheus.yml")
	must(os.WriteFile(file, config, 0o600))
	need(b.run("promtool", "check", "config", file))
	pids := need(processes("prometheus"))
	if len(pids) != 1 {
		fail("processes of Prometheus: %v", pids)
	}
	must(syscall.Kill(pids[0], syscall.SIGHUP))
}

// scrapeJobs returns the scrape configurations of a monitor's endpoints, with the labels
// that the operator adds to every target.
func (b *fixture) scrapeJobs(m podMonitor) (jobs []object) {
	for i, e := range m.Spec.PodMetricsEndpoints {
		name := fmt.Sprintf("podMonitor/%s/%s/%d", m.Metadata.Namespace, m.Metadata.Name, i)
		relabel := []object{{"target_label": "job", "replacement": m.Metadata.Namespace + "/" + m.Metadata.Name}}
		for _, l := range []string{"namespace", "pod_container_name", "pod_name"} {
			target := strings.TrimSuffix(strings.TrimPrefix(l, "pod_"), "_name")
			relabel = append(relabel, object{"source_labels": []string{"__meta_kubernetes_" + l}, "target_label": target})
		}
		for _, r := range e.Relabelings {
			o := object{"target_label": r.TargetLabel}
			if r.Replacement != "" {
				o["replacement"] = r.Replacement
			}
			if len(r.SourceLabels) > 0 {
				o["source_labels"] = r.SourceLabels
			}
			relabel = append(relabel, o)
		}
		job := object{
			"job_name": name, "metrics_path": e.Path, "honor_labels": e.HonorLabels,
			"static_configs": b.targets(m, e.Port), "relabel_configs": relabel,
		}
		if e.Scheme != "" {
			job["scheme"] = e.Scheme
		}
		if t := e.TLSConfig; t != nil {
			ca := filepath.Join(prometheusDir, m.Metadata.Name+".crt")
			must(os.WriteFile(ca, []byte(b.secret(m, t.CA.Secret)), 0o600))
			job["tls_config"] = object{"ca_file": ca, "server_name": t.ServerName}
		}
		if a := e.BasicAuth; a != nil {
			job["basic_auth"] = object{"username": b.secret(m, a.Username), "password": b.secret(m, a.Password)}
		}
		jobs = append(jobs, job)
	}
	return jobs
}

// targets returns the pods that a monitor selects, with the labels that Prometheus'
// discovery sets.
func (b *fixture) targets(m podMonitor, port string) (targets []object) {
	var choose []string
	for k, v := range m.Spec.Selector.MatchLabels {
		choose = append(choose, k+"="+v)
	}
	var pods struct {
		Items []struct {
			Metadata struct{ Name, DeletionTimestamp string }
			Spec     struct {
				NodeName   string
				Containers []struct {
					Name  string
					Ports []struct {
						Name          string
						ContainerPort int
					}
				}
			}
			Status struct{ PodIP string }
		}
	}
	b.get(&pods, "pods", "--namespace", m.Metadata.Namespace, "--selector="+strings.Join(choose, ","))
	for _, p := range pods.Items {
		for _, c := range p.Spec.Containers {
			for _, open := range c.Ports {
				if open.Name != port || p.Status.PodIP == "" || p.Metadata.DeletionTimestamp != "" {
					continue
				}
				targets = append(targets, object{
					"targets": []string{fmt.Sprintf("%s:%d", p.Status.PodIP, open.ContainerPort)},
					"labels": map[string]string{
						"__meta_kubernetes_namespace": m.Metadata.Namespace, "__meta_kubernetes_pod_name": p.Metadata.Name,
						"__meta_kubernetes_pod_node_name": p.Spec.NodeName, "__meta_kubernetes_pod_container_name": c.Name,
					},
				})
			}
		}
	}
	return targets
}

// secret returns the value of a Secret's key in the monitor's namespace, and fails if it is
// empty.
func (b *fixture) secret(m podMonitor, k secretKey) string {
	var s struct{ Data map[string][]byte }
	b.get(&s, "secret", k.Name, "--namespace", m.Metadata.Namespace)
	if len(s.Data[k.Key]) == 0 {
		must(errors.New("the Secret " + k.Name + " has no " + k.Key))
	}
	return string(s.Data[k.Key])
}

// writeRules writes the rules for Prometheus. Every alert's "for" becomes 4 seconds, and
// the window in which a disk must fall shrinks from 10 minutes to 10 seconds.
func (b *fixture) writeRules() {
	var rules struct {
		Items []struct {
			Metadata struct{ Name, Namespace string }
			Spec     object
		}
	}
	b.get(&rules, "prometheusrules", "--all-namespaces", "--selector=release="+stack)
	for _, r := range rules.Items {
		text := patienceOfRules.ReplaceAll(need(yaml.Marshal(r.Spec)), []byte("$1 4s"))
		text = windowOfFall.ReplaceAll(text, []byte("$1[10s]"))
		name := r.Metadata.Namespace + "-" + r.Metadata.Name + ".yaml"
		must(os.WriteFile(filepath.Join(prometheusDir, "rules", name), text, 0o600))
	}
}
