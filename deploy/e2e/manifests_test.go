package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/tools/chart"
	"github.com/ebb-agent/ebb/tools/peers"
)

// renderings are values with which the chart makes something else than by default.
var renderings = map[string][]string{
	"the controller":    nil,
	"the agent alone":   {"controller.enabled=false"},
	"profiles":          {"agent.profiles.canary.mode=enforce", "agent.profiles.ci.mode=observe", "agent.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key=size", "agent.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator=Exists"},
	"enforce":           {"agent.mode=enforce", "controller.mode=enforce"},
	"kubelet's pods":    {"agent.config.pods.source=kubelet", "agent.config.pods.kubelet.insecureSkipTLSVerify=true"},
	"nobody's pods":     {"agent.config.pods.source=none"},
	"no events":         {"agent.events.enabled=false"},
	"no programs":       {"agent.config.kernel.enabled=false"},
	"pods' network":     {"agent.hostNetwork=false"},
	"closed":            {"agent.metrics.open=false"},
	"protected":         {"agent.metrics.webConfigSecret=web", "controller.metrics.webConfigSecret=web", "controller.health.port=9999"},
	"microk8s":          {"agent.layout=microk8s"},
	"k3s":               {"agent.layout=k3s"},
	"one controller":    {"controller.replicas=1"},
	"named types":       {"controller.rbac.types[0].apiGroups[0]=apps", "controller.rbac.types[0].resources={deployments,replicasets}"},
	"network policy":    {"networkPolicy.enabled=true", "networkPolicy.from[0].namespaceSelector.matchLabels.monitoring=yes"},
	"warning policy":    {"admission.mode=warn"},
	"refusing policy":   {"admission.mode=deny"},
	"dashboard":         {"dashboard.enabled=true"},
	"another server":    {"apiServer.host=10.1.2.3", "apiServer.port=6443"},
	"pull secrets":      {"image.pullSecrets={a,b}", "image.digest=sha256:" + strings.Repeat("0", 64)},
	"labels":            {"agent.podLabels.team=disk", "controller.podAnnotations.note=x", "agent.serviceAccount.annotations.note=x"},
	"names":             {"fullnameOverride=disk", "commonLabels.team=disk", "imagePullSecrets[0].name=a"},
	"others' accounts":  {"agent.serviceAccount.create=false", "agent.serviceAccount.name=a", "rbac.create=false", "uninstall.check.enabled=false", "uninstall.unload.enabled=false"},
	"update by hand":    {"agent.updateStrategy.type=OnDelete", "controller.updateStrategy.type=Recreate"},
	"extras":            {"agent.extraArgs={--help}", "controller.extraEnv[0].name=X", "controller.extraEnv[0].value=y"},
	"no security types": {"agent.seLinuxOptions=null", "agent.nodeSelector=null", "agent.tolerations=null"},
}

// TestManifestsAreTaken: the real API server takes every object that the chart
// makes, with strict checks of its fields.
func TestManifestsAreTaken(t *testing.T) {
	b := start(t, peers.Config{})
	for _, dir := range []string{"", "controller", "enforce", "uninstall"} {
		files, err := filepath.Glob(filepath.Join("../manifests", dir, "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("manifests: %v, %v", files, err)
		}
		for _, file := range files { // in the order of names, as kubectl apply -f does
			b.ApplyFiles(t, filepath.Join("manifests", dir, filepath.Base(file)))
		}
	}
	helm, err := chart.Build(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range renderings {
		t.Run(name, func(t *testing.T) {
			// A Pod, and a Job's Pods, cannot be changed. Helm makes its hooks anew, too.
			b.Must(t, http.MethodDelete, "/apis/batch/v1/namespaces/ebb-system/jobs?propagationPolicy=Background", nil)
			b.Must(t, http.MethodDelete, "/api/v1/namespaces/ebb-system/pods?gracePeriodSeconds=0", nil)
			args := []string{"--set", "controller.enabled=true"}
			for _, v := range values {
				args = append(args, "--set", v)
			}
			documents, err := helm.Template(t.Context(), args...)
			if err != nil {
				t.Fatal(err)
			}
			for i, d := range documents {
				file := filepath.Join(t.TempDir(), fmt.Sprint(i, ".yaml"))
				if err := os.WriteFile(file, d.Text, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := b.Apply(t.Context(), file); err != nil {
					t.Errorf("%s: %v\n%s", d.Template, err, d.Text)
				}
			}
		})
	}
}
