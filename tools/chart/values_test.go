package chart

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestWrongValues: helm refuses each, and the error names the field.
func TestWrongValues(t *testing.T) {
	t.Parallel()
	h, err := helm()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		set   string
		wants []string
	}{
		{"mod=enforce", []string{"'mod' not allowed"}},
		{"mode=enforce", []string{"'mode' not allowed"}}, // of which of the two?
		{"agent.mode=on", []string{"/agent/mode", "observe", "enforce"}},
		{"controller.mode=on", []string{"/controller/mode", "observe", "enforce"}},
		{"agent.enabled=yes", []string{"/agent/enabled", "boolean"}},
		{"agent.layout=docker", []string{"/agent/layout", "microk8s"}},
		{"agent.metrics.port=0", []string{"/agent/metrics/port"}},
		{"agent.metrics.port=http", []string{"/agent/metrics/port", "integer"}},
		{"agent.metric.port=1", []string{"/agent", "'metric' not allowed"}},
		{"agent.containerd.socket=run/containerd.sock", []string{"/agent/containerd/socket"}},
		{"agent.profiles.canary.mod=enforce", []string{"/agent/profiles/canary"}},
		{"agent.profiles.canary.config.pods.source=none,agent.profiles.canary.mode=enforce", []string{"/agent/profiles/canary/config", "'pods' not allowed"}},
		{"agent.profiles.canary.mode=enforce,agent.profiles.canary.config.state.directory=/x", []string{"/agent/profiles/canary/config", "'state' not allowed"}},
		{"agent.profiles.canary.mode=enforce,agent.profiles.canary.config.runtime.socket=/run/a.sock", []string{"/agent/profiles/canary/config", "'runtime' not allowed"}},
		{"agent.profiles.canary.mode=enforce,agent.profiles.canary.config.kernel.pinDirectory=/x", []string{"/agent/profiles/canary/config/kernel", "'pinDirectory' not allowed"}},
		{"agent.profiles.canary.mode=enforce,agent.profiles.canary.config.filesystems.kubelet.path=/x", []string{"/agent/profiles/canary/config/filesystems", "'kubelet' not allowed"}},
		{"agent.profiles.canary.config.images.keep={a}", []string{"/agent/profiles/canary", "mode"}},
		{"agent.profiles.default.mode=enforce", []string{"agent.profiles", "default"}},
		{"agent.profiles.Big.mode=enforce", []string{"/agent/profiles", "Big"}},
		{`agent.nodeSelector.ebb/profile=canary`, []string{"agent.nodeSelector", "ebb/profile", "agent.profiles"}},
		{"agent.config.mode=enforce", []string{"/agent/config", "'mode' not allowed"}},
		{"agent.config.server.address=:1", []string{"/agent/config", "'server' not allowed"}},
		{"agent.config.images.imageGcHighThresholdPercent=80", []string{"/agent/config/images", "imageGcHighThresholdPercent"}},
		{"agent.config.images.imageGCHighThresholdPercent=180", []string{"/agent/config/images/imageGCHighThresholdPercent"}},
		{"agent.config.images.keep=busybox", []string{"/agent/config/images/keep", "array"}},
		{"agent.config.images.imageMinimumGCAge=two minutes", []string{"/agent/config/images/imageMinimumGCAge"}},
		{"agent.config.pods.source=etcd", []string{"/agent/config/pods/source", "kubelet"}},
		{"agent.tolerations[0].operater=Exists", []string{"/agent/tolerations/0", "operater"}},
		{"agent.resources.limits.memory=much", []string{"/agent/resources/limits/memory"}},
		{"agent.updateStrategy.rollingUpdate.maxUnavailable=110%", []string{"/agent/updateStrategy/rollingUpdate/maxUnavailable"}},
		{"agent.updateStrategy.rollingUpdate.maxSurge=1", []string{"/agent/updateStrategy/rollingUpdate/maxSurge"}},
		{"agent.updateStrategy.type=Recreate", []string{"/agent/updateStrategy/type", "OnDelete"}},
		{"controller.updateStrategy.type=OnDelete", []string{"/controller/updateStrategy/type", "Recreate"}},
		{"controller.updateStrategy.rollingUpdate.maxUnavalable=1", []string{"/controller/updateStrategy/rollingUpdate", "maxUnavalable"}},
		{"agent.extraEnv[0].value=x", []string{"/agent/extraEnv/0", "name"}},
		{"imagePullSecrets={a}", []string{"/imagePullSecrets/0"}},
		{"fullnameOverride=Ebb", []string{"/fullnameOverride"}},
		{"nameOverride=a.b", []string{"/nameOverride"}},
		{"agent.metrics.webConfigSecret=A", []string{"/agent/metrics/webConfigSecret"}},
		{"podMonitor.scheme=ftp", []string{"/podMonitor/scheme", "https"}},
		{"agent.serviceAccount.name=a_b", []string{"/agent/serviceAccount/name"}},
		{"agent.capabilities={cap_bpf}", []string{"/agent/capabilities/0"}},
		{"agent.seccompProfile.type=None", []string{"/agent/seccompProfile/type"}},
		{"controller.replicas=-1", []string{"/controller/replicas"}},
		{"controller.config.mode=enforce", []string{"/controller/config", "'mode' not allowed"}},
		{"controller.config.circuitBreaker.deletion=5", []string{"/controller/config/circuitBreaker", "deletion"}},
		{"controller.config.leaderElection.name=x", []string{"/controller/config/leaderElection", "'name' not allowed"}},
		{"controller.rbac.types[0].apiGroups={apps}", []string{"/controller/rbac/types/0", "resources"}},
		{"image.repository=ghcr.io/ebb-agent/ebb:1", []string{"/image/repository"}},
		{"image.registry=http://a", []string{"/image/registry"}},
		{"image.repository=**", []string{"/image/repository"}},
		{"image.digest=sha256:abc", []string{"/image/digest"}},
		{"admission.mode=on", []string{"/admission/mode", "warn"}},
		{"networkPolicy.apiServerPorts={}", []string{"/networkPolicy/apiServerPorts"}},
		{"uninstall.unload.timeout=2", []string{"/uninstall/unload/timeout"}},
		// What no schema can say.
		{"agent.health.port=9478", []string{"agent.metrics.port", "agent.health.port", "9478"}},
		{"controller.metrics.port=9481", []string{"controller.metrics.port", "controller.health.port"}},
		{"podMonitor.enabled=true,podMonitor.scheme=https", []string{"podMonitor.scheme", "agent.metrics.webConfigSecret"}},
		{"podMonitor.enabled=true,podMonitor.basicAuth.username.name=a", []string{"podMonitor.basicAuth", "agent.metrics.webConfigSecret"}},
		{"podMonitor.enabled=true,podMonitor.tlsConfig.serverName=a,agent.enabled=false,agent.metrics.webConfigSecret=a", []string{"podMonitor.tlsConfig", "controller.metrics.webConfigSecret"}},
		{"controller.config.leaderElection.enabled=false", []string{"controller.replicas", "leaderElection"}},
		{"podMonitor.enabled=true,agent.metrics.open=false", []string{"podMonitor.enabled", "agent.metrics.open"}},
		{"agent.metrics.open=false,agent.metrics.everyAddress=true", []string{"agent.metrics.everyAddress", "agent.metrics.open"}},
		{"agent.hostPID=true,agent.capabilities={BPF,PERFMON,SYS_ADMIN,DAC_READ_SEARCH,FOWNER}", []string{"agent.hostPID", "agent.capabilities", "SYS_PTRACE"}},
		{"prometheusRule.optional=true", []string{"prometheusRule.optional", "prometheusRule.enabled"}},
		{"agent.config.pods.source=kubelet,agent.hostNetwork=false", []string{"agent.hostNetwork", "agent.config.pods.source", "agent.config.pods.kubelet.url", "127.0.0.1:10250"}},
		{"agent.config.pods.source=kubelet,agent.hostNetwork=false,agent.config.pods.kubelet.url=https://localhost:10250", []string{"agent.hostNetwork"}},
		{"agent.containerd.socket=/run/a.sock,agent.config.runtime.socket=/run/b.sock", []string{"agent.containerd.socket", "agent.config.runtime.socket", "/run/a.sock", "/run/b.sock"}},
		{"agent.kubeletRoot=/a,agent.config.filesystems.kubelet.path=/b", []string{"agent.kubeletRoot", "agent.config.filesystems.kubelet.path"}},
		{"agent.kubeletRoot=/a,agent.config.filesystems.kubelet.path=", []string{"agent.kubeletRoot", "agent.config.filesystems.kubelet.path"}},
		{"agent.serviceAccount.create=false", []string{"agent.serviceAccount.create", "agent.serviceAccount.name"}},
		{"controller.serviceAccount.create=false", []string{"controller.serviceAccount.create", "controller.serviceAccount.name"}},
		{"agent.serviceAccount.name=a,controller.serviceAccount.name=a", []string{"agent.serviceAccount.name", "controller.serviceAccount.name"}},
		{"agent.serviceAccount.name=ebb-controller", []string{"agent.serviceAccount.name", "controller.serviceAccount.name"}},
		{"agent.extraArgs={--config=/x}", []string{"agent.extraArgs", "--config", "agent.config"}},
		{"controller.extraArgs={--config}", []string{"controller.extraArgs", "controller.config"}},
		{"agent.extraEnv[0].name=NODE_NAME", []string{"agent.extraEnv", "NODE_NAME"}},
		{"apiServer.host=a,controller.extraEnv[0].name=KUBERNETES_SERVICE_HOST", []string{"controller.extraEnv", "apiServer.host"}},
		{"rbac.create=false", []string{"rbac.create", "uninstall.check.enabled", "uninstall.unload.enabled"}},
		{`commonLabels.app\.kubernetes\.io/name=x`, []string{"commonLabels", "app.kubernetes.io/name"}},
		{`agent.podLabels.app\.kubernetes\.io/instance=x`, []string{"agent.podLabels", "app.kubernetes.io/instance"}},
		{`controller.podAnnotations.ebb/config=x`, []string{"controller.podAnnotations", "ebb/config"}},
		{`commonLabels.a=x,agent.podLabels.a=y`, []string{"commonLabels and agent.podLabels both have a"}},
		{`commonLabels.release=x,podMonitor.labels.release=y`, []string{"commonLabels and podMonitor.labels both have release"}},
		{"agent.config.pods.kubelet.certificateAuthority=/var/lib/kubelet/pki/kubelet.crt", []string{"agent.config.pods.kubelet.certificateAuthority", "/var/lib/kubelet/pki/kubelet.crt", "agent.extraVolumeMounts"}},
		{"agent.config.pods.apiserver.kubeconfig=/a/config", []string{"agent.config.pods.apiserver.kubeconfig", "/a/config"}},
		{"controller.config.collectors.nodes.inventory.file=/inventory/a", []string{"controller.config.collectors.nodes.inventory.file", "controller.extraVolumes"}},
		{"controller.config.collectors.volumes.drivers[0].name=a,controller.config.collectors.volumes.drivers[0].socket=/run/csi/a.sock", []string{"drivers[0].socket", "/run/csi/a.sock", "controller.extraVolumeMounts"}},
		{"agent.extraVolumeMounts[0].name=a,agent.extraVolumeMounts[0].mountPath=/var/lib/kubelet/pki", []string{"agent.extraVolumeMounts", "/var/lib/kubelet/pki"}},
		// All are reported at once.
		{"agent.serviceAccount.create=false,rbac.create=false", []string{"agent.serviceAccount.name", "rbac.create"}},
	} {
		t.Run(c.set, func(t *testing.T) {
			_, err := h.Template(t.Context(), "--set", "controller.enabled=true", "--set", c.set)
			if err == nil {
				t.Fatal("was taken")
			}
			for _, want := range c.wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not name %q: %v", want, err)
				}
			}
		})
	}
}

// TestMisspeltValues: no key of values.yaml can be misspelt without being refused by
// its name, but where Kubernetes' own fields or somebody's labels are.
func TestMisspeltValues(t *testing.T) {
	t.Parallel()
	values, err := ReadValues(filepath.Join(root, "deploy/chart/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, "deploy/chart/values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s schema
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	all := leaves(values)
	rapid.Check(t, func(t *rapid.T) {
		path := strings.Split(rapid.SampledFrom(all).Draw(t, "value").Path, ".")
		depth := rapid.IntRange(0, len(path)-1).Draw(t, "depth")
		letter := rapid.SampledFrom([]string{"", "x", "S", "_"}).Draw(t, "letter")
		misspelt := letter + path[depth][1:]
		here := s
		for _, name := range path[:depth] {
			here = here["properties"].(schema)[name].(schema)
		}
		known := here["properties"].(schema)
		if here["additionalProperties"] != false {
			t.Fatalf("%s takes any key", strings.Join(path[:depth], "."))
		}
		if known[misspelt] != nil {
			t.Fatalf("%q is a value beside %q", misspelt, path[depth])
		}
		if known[path[depth]] == nil {
			t.Fatalf("%s is not in the schema", strings.Join(path, "."))
		}
	})
}

// TestConstraintsAreOfValues: none is for a value that is not there any more.
func TestConstraintsAreOfValues(t *testing.T) {
	t.Parallel()
	values, err := ReadValues(filepath.Join(root, "deploy/chart/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, v := range leaves(values) {
		paths = append(paths, v.Path)
	}
	for _, path := range slices.Sorted(maps.Keys(constraints)) {
		if !slices.Contains(paths, path) {
			t.Errorf("constraint for %q, which is no value", path)
		}
	}
}

func TestValuesNeedComments(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "values.yaml")
	for text, want := range map[string]string{
		"# About it.\na: 1\n":                       "",
		"a: 1\n":                                    "a: has no comment",
		"a:\n  # b\n  b: 1\n  c:\n    d: 1\n":       "a.c.d: has no comment",
		"a:\n  # The whole.\n  b:\n    anything: 1": "",
		"- 1\n":  "not a mapping",
		"a: [\n": "read values",
		"":       "not a mapping",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadValues(file)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestReference(t *testing.T) {
	t.Parallel()
	values := []Value{{Path: "a", Doc: "One | two.", Default: "x|y"}, {Path: "b", Fields: []Value{{Path: "b.c", Doc: "Three.", Default: []any{}}}}}
	page := "before\n" + tableBegins + "old\n" + tableEnds + "after\n"
	got, err := Reference([]byte(page), values)
	if err != nil {
		t.Fatal(err)
	}
	want := "before\n" + tableBegins + "| value | default | |\n|---|---|---|\n| `a` | `\"x\\|y\"` | One \\| two. |\n| `b.c` | `[]` | Three. |\n" + tableEnds + "after\n"
	if string(got) != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if _, err := Reference([]byte("no marks"), values); err == nil {
		t.Error("a page without marks was taken")
	}
}
