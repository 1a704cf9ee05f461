package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// table is the table of docs/security.md whose header begins with these cells.
func table(t *testing.T, header string) (rows [][]string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "\n| "+header)
	if !ok {
		t.Fatalf("docs/security.md has no table %q", header)
	}
	for i, line := range strings.Split(rest, "\n") {
		if i < 2 {
			continue // the rest of the header, and the line below
		}
		if !strings.HasPrefix(line, "|") {
			break
		}
		var cells []string
		for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.ReplaceAll(strings.TrimSpace(cell), "`", ""))
		}
		rows = append(rows, cells)
	}
	return rows
}

// convert is a part of an object as a type of its own.
func convert[T any](t *testing.T, part any) (v T) {
	t.Helper()
	data, err := json.Marshal(part)
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

type securityContext struct {
	Privileged, AllowPrivilegeEscalation, ReadOnlyRootFilesystem, RunAsNonRoot *bool
	RunAsUser                                                                  *int
	Capabilities                                                               struct{ Add, Drop []string }
	SeccompProfile, AppArmorProfile                                            struct{ Type string }
}

type podSpec struct {
	HostNetwork, HostPID, HostIPC bool
	SecurityContext               securityContext
	Containers, InitContainers    []struct {
		Command, Args   []string
		SecurityContext securityContext
		VolumeMounts    []struct {
			Name, MountPath, MountPropagation string
			ReadOnly                          bool
		}
	}
	Volumes []struct {
		Name     string
		HostPath *struct{ Path string }
	}
}

func podOf(t *testing.T, o object) podSpec {
	t.Helper()
	if o == nil {
		t.Fatal("no such object")
	}
	return convert[podSpec](t, at[object](o, "spec", "template", "spec"))
}

// TestCapabilitiesAreDocumented: each with its reason, and no others.
func TestCapabilitiesAreDocumented(t *testing.T) {
	var want []string
	for _, row := range table(t, "capability |") {
		want = append(want, row[0])
	}
	agent := podOf(t, render(t)["DaemonSet/ebb-agent"])
	if diff := cmp.Diff(want, agent.Containers[0].SecurityContext.Capabilities.Add); diff != "" {
		t.Errorf("docs/security.md and the DaemonSet (-page +chart):\n%s", diff)
	}
	without := podOf(t, render(t, "agent.config.kernel.enabled=false")["DaemonSet/ebb-agent"])
	if diff := cmp.Diff(want[3:], without.Containers[0].SecurityContext.Capabilities.Add); diff != "" {
		t.Errorf("without programs (-want +got):\n%s", diff)
	}
}

// mountsOf are the node's directories that a pod mounts, and which it may write to.
func mountsOf(p podSpec) map[string]string {
	hosts := make(map[string]string)
	for _, v := range p.Volumes {
		if v.HostPath != nil {
			hosts[v.Name] = v.HostPath.Path
		}
	}
	mounts := make(map[string]string)
	for _, m := range p.Containers[0].VolumeMounts {
		if hosts[m.Name] == "" {
			continue
		}
		access := "write"
		if m.ReadOnly {
			access = "read"
		}
		mounts[hosts[m.Name]] = access
		if m.MountPath != hosts[m.Name] {
			mounts[hosts[m.Name]] += " at " + m.MountPath
		}
	}
	return mounts
}

// TestMountsAreDocumented: each directory of the node with its reason, where the node
// has it, and no wider than said.
func TestMountsAreDocumented(t *testing.T) {
	want := make(map[string]string)
	for _, row := range table(t, "directory of the node |") {
		want[row[0]] = row[1]
	}
	enforcing := podOf(t, render(t, "agent.mode=enforce")["DaemonSet/ebb-agent"])
	if diff := cmp.Diff(want, mountsOf(enforcing)); diff != "" {
		t.Errorf("docs/security.md and the DaemonSet (-page +chart):\n%s", diff)
	}
	for _, narrower := range [][]string{nil, {"controller.mode=enforce"}, {"agent.mode=enforce", "agent.config.containers.logs=false"}, {"agent.mode=enforce", "agent.config.containers.enabled=false"}} {
		want["/var/log/pods"], want["/var/log/containers"] = "read", "read"
		if diff := cmp.Diff(want, mountsOf(podOf(t, render(t, narrower...)["DaemonSet/ebb-agent"]))); diff != "" {
			t.Errorf("with %v (-want +got):\n%s", narrower, diff)
		}
	}
	delete(want, "/sys/fs/bpf")
	if diff := cmp.Diff(want, mountsOf(podOf(t, render(t, "agent.config.kernel.enabled=false")["DaemonSet/ebb-agent"]))); diff != "" {
		t.Errorf("without programs (-want +got):\n%s", diff)
	}
}

// TestMountsFollowConfiguration: what is configured elsewhere is mounted from there.
func TestMountsFollowConfiguration(t *testing.T) {
	for _, c := range []struct {
		set  string
		want map[string]string
		gone []string
	}{
		{"agent.layout=k3s", map[string]string{"/run/k3s/containerd": "read", "/var/lib/rancher/k3s/agent/containerd": "read"}, []string{"/run/containerd", "/var/lib/containerd"}},
		{"agent.layout=rke2", map[string]string{"/run/k3s/containerd": "read", "/var/lib/rancher/rke2/agent/containerd": "read"}, nil},
		{"agent.layout=microk8s", map[string]string{"/var/snap/microk8s/common/run": "read", "/var/snap/microk8s/common/var/lib/kubelet": "read"}, []string{"/var/lib/kubelet"}},
		{"agent.layout=k0s", map[string]string{"/run/k0s": "read", "/var/lib/k0s/containerd": "read", "/var/lib/k0s/kubelet": "read"}, nil},
		{"agent.containerd.root=/data/containerd", map[string]string{"/data/containerd": "read"}, []string{"/var/lib/containerd"}},
		{"agent.config.runtime.socket=/run/x/c.sock", map[string]string{"/run/x": "read"}, []string{"/run/containerd"}},
		{"agent.config.runtime.socket=auto", map[string]string{"/run/containerd": "read"}, nil},
		{"agent.config.state.directory=/data/ebb", map[string]string{"/data/ebb": "write"}, []string{"/var/lib/ebb"}},
		{"agent.config.state.lockFile=/run/lock/ebb/lock", map[string]string{"/run/lock/ebb": "write"}, []string{"/run/ebb"}},
		{"agent.config.filesystems.podLogs.path=/data/logs", map[string]string{"/data/logs": "read"}, []string{"/var/log/pods"}},
		{"agent.config.filesystems.kubelet.path=", nil, []string{"/var/lib/kubelet"}},
		{"agent.config.containers.logLinks=", nil, []string{"/var/log/containers"}},
		{"agent.kubeletRoot=/data/kubelet", map[string]string{"/data/kubelet": "read"}, []string{"/var/lib/kubelet"}},
		{"agent.config.kernel.pinDirectory=/sys/fs/bpf/a/b", map[string]string{"/sys/fs/bpf": "write"}, nil},
		{"agent.config.kernel.pinDirectory=/data/bpf/ebb", map[string]string{"/data/bpf": "write"}, []string{"/sys/fs/bpf"}},
	} {
		objects := render(t, c.set)
		agentConfig(t, objects)
		got := mountsOf(podOf(t, objects["DaemonSet/ebb-agent"]))
		for path, access := range c.want {
			if got[path] != access {
				t.Errorf("%s: %s is %q, want %q", c.set, path, got[path], access)
			}
		}
		for _, path := range c.gone {
			if got[path] != "" {
				t.Errorf("%s: %s is still mounted", c.set, path)
			}
		}
	}
}

func unloadPod(t *testing.T, text string) podSpec {
	t.Helper()
	var o object
	if err := yaml.UnmarshalStrict([]byte(text), &o); err != nil || text == "" {
		t.Fatalf("the pod that clears a node: %v\n%s", err, text)
	}
	return convert[podSpec](t, o["spec"])
}

// TestContainersAreConfined: what holds for all of them, and that only the agent and
// the pod that clears a node are root.
func TestContainersAreConfined(t *testing.T) {
	objects := render(t, "agent.mode=enforce", "controller.mode=enforce")
	unload := at[string](objects["ConfigMap/ebb-uninstall-unload"], "data", "pod.yaml")
	pods := map[string]podSpec{"unload's pod": unloadPod(t, unload)}
	for key, o := range objects {
		if kind, _, _ := strings.Cut(key, "/"); slices.Contains([]string{"DaemonSet", "Deployment", "Job"}, kind) {
			pods[key] = podOf(t, o)
		}
	}
	if len(pods) != 5 {
		t.Fatalf("%d pods: %v", len(pods), slices.Collect(maps.Keys(pods)))
	}
	for key, p := range pods {
		root := key == "DaemonSet/ebb-agent" || key == "unload's pod"
		if len(p.InitContainers) != 0 || len(p.Containers) != 1 {
			t.Fatalf("%s has %d containers", key, len(p.Containers)+len(p.InitContainers))
		}
		c := p.Containers[0].SecurityContext
		got := fmt.Sprint(*c.Privileged, *c.AllowPrivilegeEscalation, *c.ReadOnlyRootFilesystem, c.Capabilities.Drop)
		if got != "false false true [ALL]" {
			t.Errorf("%s: privileged, escalation, read-only, dropped: %s", key, got)
		}
		seccomp := p.SecurityContext.SeccompProfile.Type + c.SeccompProfile.Type
		if seccomp != "RuntimeDefault" {
			t.Errorf("%s: seccomp %q", key, seccomp)
		}
		if root {
			continue
		}
		if len(c.Capabilities.Add) > 0 || *p.SecurityContext.RunAsUser != 65532 || !*p.SecurityContext.RunAsNonRoot ||
			p.HostNetwork || p.HostPID || p.HostIPC || len(mountsOf(p)) > 0 {
			t.Errorf("%s is not without privileges: %+v", key, p)
		}
	}
	if p := pods["DaemonSet/ebb-agent"]; p.HostPID || p.HostIPC {
		t.Errorf("the agent has the node's processes: %+v", p)
	}
}

// TestControllerRightsAreDocumented: what its roles allow, and no more.
func TestControllerRightsAreDocumented(t *testing.T) {
	objects := render(t)
	type rule struct{ APIGroups, Resources, ResourceNames, Verbs []string }
	var got []string
	for _, role := range []string{"ClusterRole/ebb-controller", "Role/ebb-controller"} {
		var own string
		for _, r := range convert[struct{ Rules []rule }](t, objects[role]).Rules {
			line := strings.Join(r.APIGroups, ", ") + " | " + strings.Join(r.Resources, ", ")
			if role == "ClusterRole/ebb-controller" {
				got = append(got, line+" | "+strings.Join(r.Verbs, ", "))
			} else if own == "" { // a right to create cannot be bound to a name, so that there are two rules
				own = line + ", in its namespace | " + strings.Join(r.Verbs, ", ")
			} else {
				got = append(got, own+"; "+strings.Join(r.Verbs, ", ")+" of its own")
				own = "" // the next pair
			}
		}
	}
	var want []string
	for _, row := range table(t, "API group |") {
		want = append(want, strings.Join(row[:3], " | "))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/security.md and the roles (-page +chart):\n%s", diff)
	}
}

// TestLint: helm itself finds nothing.
func TestLint(t *testing.T) {
	h, err := helm()
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"observe", "enforce"} {
		if out, err := h.Run(t.Context(), "lint", "--strict", "--set", "agent.mode="+mode+",controller.mode="+mode); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// TestRightsFollowCollectors: where types are named, the collector of Nodes has the rights
