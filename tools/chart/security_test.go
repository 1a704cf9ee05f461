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

	"github.com/ebb-agent/ebb/agent/node/unload"
	"github.com/ebb-agent/ebb/agent/uninstall"
)

// The pages whose tables are compared with the chart.
const (
	securityPage = "docs/security.md"
	agentPage    = "docs/security-agent.md"
)

// table returns the rows of the table of a page whose header begins with these cells.
func table(t *testing.T, path, header string) (rows [][]string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "\n| "+header)
	if !ok {
		t.Fatalf("%s has no table %q", path, header)
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
	t.Parallel()
	var want []string
	for _, row := range table(t, agentPage, "capability |") {
		want = append(want, row[0])
	}
	agent := podOf(t, render(t)["DaemonSet/ebb-agent"])
	if diff := cmp.Diff(want, agent.Containers[0].SecurityContext.Capabilities.Add); diff != "" {
		t.Errorf("%s and the DaemonSet (-page +chart):\n%s", agentPage, diff)
	}
	without := podOf(t, render(t, "agent.config.kernel.enabled=false")["DaemonSet/ebb-agent"])
	if diff := cmp.Diff(want[3:], without.Containers[0].SecurityContext.Capabilities.Add); diff != "" {
		t.Errorf("without programs (-want +got):\n%s", diff)
	}
}

// TestPresets: each changes what its name promises, and nothing else.
func TestPresets(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "deploy/chart/presets/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	wants := map[string][]string{"without-sys-admin.yaml": {"BPF", "PERFMON", "DAC_READ_SEARCH", "FOWNER"}}
	if len(files) != len(wants) {
		t.Fatalf("presets: %v", files)
	}
	for _, file := range files {
		h, err := helm()
		if err != nil {
			t.Fatal(err)
		}
		list, err := h.Template(t.Context(), "--values", file, "--set", "controller.enabled=true")
		if err != nil {
			t.Fatal(err)
		}
		got := objectsOf(t, list)
		agent := podOf(t, got["DaemonSet/ebb-agent"])
		if diff := cmp.Diff(wants[filepath.Base(file)], agent.Containers[0].SecurityContext.Capabilities.Add); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
		want := render(t, "agent.capabilities={"+strings.Join(wants[filepath.Base(file)], ",")+"}")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s changes more (-want +got):\n%s", file, diff)
		}
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
// has it (but for the kubelet's, of which the agent has an empty one in it), and no wider
// than documented.
func TestMountsAreDocumented(t *testing.T) {
	t.Parallel()
	want := make(map[string]string)
	for _, row := range table(t, agentPage, "directory of the node |") {
		want[row[0]] = row[1]
	}
	enforcing := podOf(t, render(t, "agent.mode=enforce")["DaemonSet/ebb-agent"])
	if diff := cmp.Diff(want, mountsOf(enforcing)); diff != "" {
		t.Errorf("%s and the DaemonSet (-page +chart):\n%s", agentPage, diff)
	}
	// Where the agent cannot see the kubelet's directory, unload removes the one that it had.
	if empty := "/var/lib/kubelet/" + unload.KubeletDirectory; want[empty] == "" {
		t.Errorf("unload would remove %s, and the DaemonSet has %v", empty, want)
	}
	for _, narrower := range [][]string{nil, {"controller.mode=enforce"}, {"agent.mode=enforce", "agent.config.containers.logs=false"}, {"agent.mode=enforce", "agent.config.containers.enabled=false"}} {
		want["/var/log/pods"], want["/var/log/containers"] = "read", "read"
		if diff := cmp.Diff(want, mountsOf(podOf(t, render(t, narrower...)["DaemonSet/ebb-agent"]))); diff != "" {
			t.Errorf("with %v (-want +got):\n%s", narrower, diff)
		}
	}
	delete(want, "/sys/fs/bpf/ebb")
	if diff := cmp.Diff(want, mountsOf(podOf(t, render(t, "agent.config.kernel.enabled=false")["DaemonSet/ebb-agent"]))); diff != "" {
		t.Errorf("without programs (-want +got):\n%s", diff)
	}
}

// TestMountsFollowConfiguration: what is configured elsewhere is mounted from there.
func TestMountsFollowConfiguration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set  string
		want map[string]string
		gone []string
	}{
		{"agent.layout=k3s", map[string]string{"/run/k3s/containerd": "read", "/var/lib/rancher/k3s/agent/containerd": "read"}, []string{"/run/containerd", "/var/lib/containerd"}},
		{"agent.layout=rke2", map[string]string{"/run/k3s/containerd": "read", "/var/lib/rancher/rke2/agent/containerd": "read"}, nil},
		{"agent.layout=microk8s", map[string]string{"/var/snap/microk8s/common/run": "read", "/var/snap/microk8s/common/var/lib/kubelet/ebb": "read at /var/snap/microk8s/common/var/lib/kubelet"}, []string{"/var/lib/kubelet/ebb"}},
		{"agent.layout=k0s", map[string]string{"/run/k0s": "read", "/var/lib/k0s/containerd": "read", "/var/lib/k0s/kubelet/ebb": "read at /var/lib/k0s/kubelet"}, nil},
		{"agent.containerd.root=/data/containerd", map[string]string{"/data/containerd": "read"}, []string{"/var/lib/containerd"}},
		{"agent.config.runtime.socket=/run/x/c.sock", map[string]string{"/run/x": "read"}, []string{"/run/containerd"}},
		{"agent.config.runtime.socket=auto", map[string]string{"/run/containerd": "read"}, nil},
		{"agent.config.state.directory=/data/ebb", map[string]string{"/data/ebb": "write"}, []string{"/var/lib/ebb"}},
		{"agent.config.state.lockFile=/run/lock/ebb/lock", map[string]string{"/run/lock/ebb": "write", "/run/ebb": "write"}, nil},
		{"agent.config.filesystems.podLogs.path=/data/logs", map[string]string{"/data/logs": "read"}, []string{"/var/log/pods"}},
		{"agent.config.filesystems.kubelet.path=", nil, []string{"/var/lib/kubelet/ebb"}},
		{"agent.config.containers.logLinks=", nil, []string{"/var/log/containers"}},
		{"agent.kubeletRoot=/data/kubelet", map[string]string{"/data/kubelet/ebb": "read at /data/kubelet"}, []string{"/var/lib/kubelet/ebb"}},
		{"agent.config.kernel.pinDirectory=/sys/fs/bpf/a/b", map[string]string{"/sys/fs/bpf/a/b": "write"}, []string{"/sys/fs/bpf/ebb"}},
		{"agent.config.kernel.pinDirectory=/data/bpf/ebb", map[string]string{"/data/bpf/ebb": "write"}, []string{"/sys/fs/bpf/ebb"}},
		{"agent.config.kernel.pinDirectory=/run/ebb/bpf", map[string]string{"/run/ebb/bpf": "write", "/run/ebb": "write"}, []string{"/sys/fs/bpf/ebb"}},
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

// TestPinsHaveAPlace: runtimes cannot make a directory in the sysfs of a container, so that one that is
// mounted there stands in something else.
func TestPinsHaveAPlace(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]bool{"": true, "agent.config.kernel.pinDirectory=/sys/fs/bpf/a/b": true, "agent.config.kernel.pinDirectory=/run/ebb/bpf": false,
		"agent.config.kernel.pinDirectory=/sys/fs/bpf": false, "agent.config.kernel.enabled=false": false} {
		spec := at[object](render(t, set)["DaemonSet/ebb-agent"], "spec", "template", "spec")
		made := make(map[string]bool)
		for _, v := range convert[[]struct {
			Name     string
			EmptyDir *object
		}](t, spec["volumes"]) {
			made[v.Name] = v.EmptyDir != nil
		}
		place := false
		for _, m := range convert[[]struct {
			VolumeMounts []named
		}](t, spec["containers"])[0].VolumeMounts {
			place = place || m.MountPath == "/sys/fs/bpf" && made[m.Name]
		}
		if place != want {
			t.Errorf("%q: %v", set, place)
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
	t.Parallel()
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

// TestHostPID: who asks for the node's processes gets them, with the capability that it takes to
// look at those of other users.
func TestHostPID(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set   []string
		want  bool
		added []string
	}{
		{nil, false, []string{"BPF", "PERFMON", "SYS_ADMIN", "DAC_READ_SEARCH", "FOWNER"}},
		{[]string{"agent.hostPID=true"}, true, []string{"BPF", "PERFMON", "SYS_ADMIN", "DAC_READ_SEARCH", "FOWNER", "SYS_PTRACE"}},
		{[]string{"agent.hostPID=true", "agent.config.kernel.enabled=false"}, true, []string{"DAC_READ_SEARCH", "FOWNER", "SYS_PTRACE"}},
		{[]string{"agent.hostPID=true", "agent.capabilities={BPF,SYS_PTRACE}"}, true, []string{"BPF", "SYS_PTRACE"}},
	} {
		p := podOf(t, render(t, c.set...)["DaemonSet/ebb-agent"])
		if p.HostPID != c.want || p.HostIPC || p.Containers[0].SecurityContext.Privileged == nil || *p.Containers[0].SecurityContext.Privileged {
			t.Errorf("%v: %+v", c.set, p)
		}
		if diff := cmp.Diff(c.added, p.Containers[0].SecurityContext.Capabilities.Add); diff != "" {
			t.Errorf("%v, capabilities (-want +got):\n%s", c.set, diff)
		}
	}
}

type rule struct{ APIGroups, Resources, ResourceNames, Verbs []string }

// TestAsksKubelets: nobody has the right to run commands on nodes but who asks for it. All
// others that ask kubelets may read their configuration, and say how to ask.
func TestAsksKubelets(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]struct{ proxy, configz, flag string }{
		"":                                  {"[]", "[ClusterRole/ebb-uninstall-kubelets]", "--kubelet-account=" + uninstall.KubeletAccount},
		"uninstall.check.kubeletProxy=true": {"[ClusterRole/ebb-uninstall-check]", "[]", "--kubelet-proxy"},
		"agent.config.pods.source=kubelet":  {"[]", "[ClusterRole/ebb-agent ClusterRole/ebb-uninstall-kubelets]", "--kubelet-account=" + uninstall.KubeletAccount},
		"agent.enabled=false":               {"[]", "[]", ""},
		"agent.enabled=false,uninstall.check.kubeletProxy=true": {"[]", "[]", ""},
	} {
		proxy, configz := []string{}, []string{}
		objects := render(t, set)
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			for _, r := range convert[struct{ Rules []rule }](t, objects[key]).Rules {
				if slices.Contains(r.Resources, "nodes/proxy") {
					proxy = append(proxy, key)
				}
				if slices.Contains(r.Resources, "nodes/configz") {
					configz = append(configz, key)
				}
			}
		}
		var flag string
		for _, arg := range podOf(t, objects["Job/ebb-uninstall-check"]).Containers[0].Args {
			if strings.HasPrefix(arg, "--kubelet-") {
				flag += arg
			}
		}
		if fmt.Sprint(proxy) != want.proxy || fmt.Sprint(configz) != want.configz || flag != want.flag {
			t.Errorf("%q: %s, %s, %q, want %+v", set, proxy, configz, flag, want)
		}
	}
}

// TestControllerRightsAreDocumented: what its roles allow in each mode, and no more.
func TestControllerRightsAreDocumented(t *testing.T) {
	t.Parallel()
	verbs := map[string][]string{} // of each resource, in mode observe and in mode enforce
	for n, mode := range []string{"observe", "enforce"} {
		objects := render(t, "controller.mode="+mode)
		for _, role := range []string{"ClusterRole/ebb-controller", "Role/ebb-controller"} {
			for _, r := range convert[struct{ Rules []rule }](t, objects[role]).Rules {
				line := strings.Join(r.APIGroups, ", ") + " | " + strings.Join(r.Resources, ", ")
				if role == "Role/ebb-controller" {
					line += ", in its namespace"
				}
				if verbs[line] == nil {
					verbs[line] = []string{"none", "none"}
				}
				if is := strings.Join(r.Verbs, ", "); verbs[line][n] == "none" {
					verbs[line][n] = is
				} else { // a right to create cannot be bound to a name, so that there are two rules
					verbs[line][n] += "; " + is + " of its own"
				}
			}
		}
	}
	var got, want []string
	for line, of := range verbs {
		got = append(got, line+" | "+of[0]+" | "+of[1])
	}
	for _, row := range table(t, securityPage, "API group |") {
		want = append(want, strings.Join(row[:4], " | "))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s and the roles (-page +chart):\n%s", securityPage, diff)
	}
}

// TestLint: helm itself finds nothing.
func TestLint(t *testing.T) {
	t.Parallel()
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

// TestPauseFile: the agent mounts the ConfigMap that pauses it, which usually does not exist, where its
// configuration looks for it.
func TestPauseFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ set, mount, file string }{
		{"", "/etc/ebb-pause", "pause"}, {"agent.config.pauseFile=/run/stop/now", "/run/stop", "now"}, {"agent.config.pauseFile=", "", ""},
	} {
		o := render(t, c.set)["DaemonSet/ebb-agent"]
		mount := ""
		for _, m := range containerOf(t, o).VolumeMounts {
			if m.Name == "pause" {
				mount = m.MountPath
			}
		}
		if mount != c.mount {
			t.Errorf("%q: mounted at %q, want %q", c.set, mount, c.mount)
		}
		volumes := 0
		for _, v := range convert[[]struct {
			Name      string
			ConfigMap struct {
				Name     string
				Optional bool
				Items    []struct{ Key, Path string }
			}
		}](t, at[any](o, "spec", "template", "spec", "volumes")) {
			if v.Name != "pause" {
				continue
			}
			volumes++
			if m := v.ConfigMap; m.Name != "ebb-pause" || !m.Optional || len(m.Items) != 1 || m.Items[0].Key != "pause" || m.Items[0].Path != c.file {
				t.Errorf("%q: %+v", c.set, v)
			}
		}
		if (volumes == 1) != (c.mount != "") {
			t.Errorf("%q: %d volumes", c.set, volumes)
		}
	}
}
