package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/uninstall"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/peers"
)

const image = "registry.example.io/ebb:v1"

// template is the pod that clears a node. The program is the one under test, which is on
// the node's disk, not in the image.
func (b *fixture) template(command ...string) string {
	b.Helper()
	if command == nil {
		command = []string{"/host" + b.bin + "/ebb-agent", "unload", "--root=/host", "--wait=20s", "--config=/host" + filepath.Join(b.node.Dir(), "agent.yaml")}
	}
	text, err := yaml.Marshal(object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"labels": object{"app.kubernetes.io/name": "ebb"}}, "spec": object{
		"hostNetwork": true, "automountServiceAccountToken": false,
		"containers": []object{{
			"name": "unload", "image": image, "imagePullPolicy": "Never", "command": command, "terminationMessagePolicy": "FallbackToLogsOnError",
			"securityContext": object{"readOnlyRootFilesystem": true, "capabilities": object{"drop": []string{"ALL"}, "add": []string{"SYS_CHROOT"}}},
			"volumeMounts":    []object{{"name": "host", "mountPath": "/host"}},
		}},
		"volumes": []object{{"name": "host", "hostPath": object{"path": "/"}}},
	}})
	b.must(err)
	file := filepath.Join(b.TempDir(), "pod.yaml")
	b.must(os.WriteFile(file, text, 0o600))
	return file
}

// unload runs ebb uninstall unload.
func (b *fixture) unload(args ...string) (u uninstall.Unloaded, output string, code int) {
	b.Helper()
	out, errs, code := b.ebb(b.kubeconfig, nil, append([]string{"unload", "--namespace", namespace, "-o", "json"}, args...)...)
	if out == "" {
		return u, errs, code
	}
	if err := json.Unmarshal([]byte(out), &u); err != nil {
		b.Fatalf("unload %q: %v\n%s%s", args, err, out, errs)
	}
	return u, out + errs, code
}

// names are those of objects in ebb's namespace.
func (b *fixture) names(version, resource string) (names []string) {
	b.Helper()
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	b.Read(b, version+"/namespaces/"+namespace+"/"+resource, &list)
	for _, p := range list.Items {
		names = append(names, p.Metadata.Name)
	}
	return names
}

// TestUnload: what a killed agent has left goes, by a DaemonSet with next to no rights; what
// a garbage collector would have deleted, too; a node that is down is named.
func TestUnload(t *testing.T) {
	b := newFixture(t, peers.Config{Scheduler: true, ControllerManager: true,
		ControllerManagerArgs: []string{"--controllers=daemonset-controller,serviceaccount-controller"}}, nil)
	b.eventually("a service account", func(ctx context.Context) error {
		return b.Ask(ctx, http.MethodGet, "/api/v1/namespaces/"+namespace+"/serviceaccounts/default", nil, nil)
	})
	b.must(b.ControllerManager.Kill()) // it would look after the leftovers
	_, err := b.node.Import(t.Context(), node.CRINamespace, node.Image{Name: image, Layers: []node.Layer{{Seed: "ebb", Bytes: 1 << 20}}})
	b.must(err)
	c := b.runAgentAndKill()
	ghost := "ghost-" + strings.Repeat("x", 200)
	b.Must(b, http.MethodPost, "/api/v1/nodes", object{"metadata": object{"name": ghost, "labels": object{"kubernetes.io/os": "linux"}},
		"status": object{"allocatable": object{"pods": "9", "cpu": "1", "memory": "1Gi"}}})
	b.Must(b, http.MethodPost, "/api/v1/nodes", object{"metadata": object{"name": "win", "labels": object{"kubernetes.io/os": "windows"}}})
	b.leftovers()
	b.Must(b, http.MethodPost, "/api/v1/namespaces/"+namespace+"/pods", object{"metadata": object{
		"name": "ebb-unload-before", "labels": object{"ebb-agent.github.io/unload": "true"}}, "spec": podSpec("")})

	args := []string{"--template", b.template(), "--timeout", "30s",
		"--sweep", "app.kubernetes.io/instance=ebb", "--lease", "ebb-controller", "--lease", "never-there"}
	_, output, code := b.unload(args...)
	b.wantIn(output, "ebb is still installed: DaemonSet ebb-agent is there")
	if _, err := os.Stat(c.State.Directory); code != 3 || err != nil {
		t.Errorf("exit code %d; state: %v", code, err)
	}
	for _, path := range []string{"daemonsets/ebb-agent", "deployments/ebb-controller"} {
		b.Must(b, http.MethodDelete, "/apis/apps/v1/namespaces/"+namespace+"/"+path, object{"propagationPolicy": "Background"})
	}
	b.Must(b, http.MethodDelete, "/api/v1/namespaces/"+namespace+"/services/ebb", nil)
	b.must(b.ControllerManager.Start(t.Context()))

	u, output, code := b.unload(args...)
	if code != 4 || u.Clean != 1 || len(u.Nodes) != 1 || u.Nodes[0].Node != ghost || u.Nodes[0].Result != uninstall.NotInTime {
		t.Errorf("exit code %d: %s", code, output)
	}
	b.wantIn(output, "node "+b.kubelet.NodeName()+": clean", "is the node down?",
		"ebb uninstall unload --namespace ebb-system --template FILE --node "+ghost, "ebb-agent unload")
	want := "[Lease ebb-controller ReplicaSet ebb-controller-1 Pod ebb-agent-1 Pod ebb-controller-1-1 ControllerRevision ebb-agent-1 EndpointSlice ebb-1]"
	if got := fmt.Sprint(u.Swept); got != want || len(u.Left) > 0 {
		t.Errorf("swept %s, want %s; left %q", got, want, u.Left)
	}
	b.wantNothingLeft()
	for _, path := range []string{c.State.Directory, c.Kernel.PinDirectory, filepath.Dir(c.State.LockFile)} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}

	// Again, on what is clean.
	b.Must(b, http.MethodDelete, "/api/v1/nodes/"+ghost, nil)
	if u, output, code = b.unload(args...); code != 0 || u.Clean != 1 || len(u.Swept) > 0 {
		t.Errorf("again: exit code %d: %s", code, output)
	}
	b.testFailures()
}

// wantNothingLeft looks for what an unload has made.
func (b *fixture) wantNothingLeft() {
	b.Helper()
	if got := fmt.Sprint(b.names("/api/v1", "pods"), b.names("/apis/apps/v1", "daemonsets"), b.names("/apis/apps/v1", "controllerrevisions")); got != "[of-a-job of-nobody] [] []" {
		b.Errorf("there are %s", got)
	}
}

// testFailures: the reason that a node's pod gives is in the result.
func (b *fixture) testFailures() {
	node := b.kubelet.NodeName()
	failing := b.template("/host"+b.bin+"/ebb-agent", "unload", "--config=/nowhere.yaml")
	u, output, code := b.unload("--template", failing, "--node", node)
	if code != 1 || len(u.Nodes) != 1 || u.Nodes[0].Result != uninstall.Failed || !strings.Contains(u.Nodes[0].Says, "/nowhere.yaml") {
		b.Errorf("exit code %d: %s", code, output)
	}
	u, output, code = b.unload("--image", "registry.example.io/never-there:v1", "--node", node, "--timeout", "8s")
	if code != 4 || len(u.Nodes) != 1 || u.Nodes[0].Result != uninstall.NotInTime || !strings.Contains(u.Nodes[0].Says, "never-there") {
		b.Errorf("exit code %d: %s", code, output)
	}
	if _, output, code = b.unload("--image", image, "--node", "nobody"); code != 1 || !strings.Contains(output, `there is no node "nobody"`) {
		b.Errorf("exit code %d: %s", code, output)
	}
	if _, output, code = b.unload(); code != 2 || !strings.Contains(output, "--image") {
		b.Errorf("exit code %d: %s", code, output)
	}
	b.wantNothingLeft()
	// A namespace that takes no such pods.
	const level = "pod-security.kubernetes.io/enforce"
	b.Must(b, http.MethodPatch, "/api/v1/namespaces/"+namespace, object{"metadata": object{"labels": object{level: "restricted"}}})
	u, output, code = b.unload("--image", image, "--node", node)
	if code != 4 || len(u.Nodes) != 1 || !strings.Contains(u.Nodes[0].Says, "violates PodSecurity") {
		b.Errorf("exit code %d: %s", code, output)
	}
	b.Must(b, http.MethodPatch, "/api/v1/namespaces/"+namespace, object{"metadata": object{"labels": object{level: nil}}})
	b.wantNothingLeft()
	// Interrupted, the DaemonSet stays; the next run, with another template, is not misled
	// by it, and leaves nothing.
	cmd := exec.CommandContext(b.Context(), filepath.Join(b.bin, "ebb"), "uninstall", "unload", "--namespace", namespace, "--kubeconfig", b.kubeconfig,
		"--template", b.template("/host/bin/sleep", "1h"))
	b.must(cmd.Start())
	b.eventually("a pod", func(context.Context) error {
		if names := fmt.Sprint(b.names("/api/v1", "pods")); !strings.Contains(names, "ebb-unload-") {
			return fmt.Errorf("there are %s", names)
		}
		return nil
	})
	b.must(cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 {
		b.Errorf("interrupted: %v", err)
	}
	if got := fmt.Sprint(b.names("/apis/apps/v1", "daemonsets")); got != "[ebb-unload]" {
		b.Errorf("interrupted, there are the DaemonSets %s", got)
	}
	if u, output, code = b.unload("--template", b.template()); code != 0 || u.Clean != 1 {
		b.Errorf("after an interruption: exit code %d: %s", code, output)
	}
	b.wantNothingLeft()
}

func podSpec(node string) object {
	spec := object{"hostNetwork": true, "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": false,
		"containers": []object{{"name": "main", "image": image, "imagePullPolicy": "Never", "command": []string{"/bin/sleep", "1h"}}}}
	if spec["nodeName"] = node; node == "" {
		spec["schedulerName"] = "nobody"
	}
	return spec
}

// leftovers are what the chart's objects make others make, as these would be named.
func (b *fixture) leftovers() {
	b.Helper()
	labels := object{"app.kubernetes.io/instance": "ebb"}
	uids := map[string]string{}
	add := func(prefix, resource, apiVersion, kind, name, owner string, rest object) {
		b.Helper()
		meta := object{"name": name, "labels": labels}
		if owner != "" {
			ownerKind, ownerName, _ := strings.Cut(owner, "/")
			uid := uids[owner]
			if uid == "" {
				uid = "00000000-0000-0000-0000-000000000001" // never there
			}
			meta["ownerReferences"] = []object{{"apiVersion": "v1", "kind": ownerKind, "name": ownerName, "uid": uid, "controller": true}}
		}
		body := object{"apiVersion": apiVersion, "kind": kind, "metadata": meta}
		for k, v := range rest {
			body[k] = v
		}
		uids[kind+"/"+name] = b.Must(b, http.MethodPost, prefix+"/namespaces/"+namespace+"/"+resource, body)
	}
	const apps, core = "/apis/apps/v1", "/api/v1"
	workload := object{"spec": object{"selector": object{"matchLabels": labels},
		"template": object{"metadata": object{"labels": labels}, "spec": object{"containers": []object{{"name": "main", "image": image}}}}}}
	add(apps, "daemonsets", "apps/v1", "DaemonSet", "ebb-agent", "", workload)
	add(apps, "deployments", "apps/v1", "Deployment", "ebb-controller", "", workload)
	add(core, "services", "v1", "Service", "ebb", "", object{"spec": object{"clusterIP": "None", "ports": []object{{"port": 80}}}})
	add(apps, "controllerrevisions", "apps/v1", "ControllerRevision", "ebb-agent-1", "DaemonSet/ebb-agent", object{"revision": 1, "data": object{"spec": object{}}})
	add(core, "pods", "v1", "Pod", "ebb-agent-1", "DaemonSet/ebb-agent", object{"spec": podSpec(b.kubelet.NodeName())})
	add(apps, "replicasets", "apps/v1", "ReplicaSet", "ebb-controller-1", "Deployment/ebb-controller", workload)
	add(core, "pods", "v1", "Pod", "ebb-controller-1-1", "ReplicaSet/ebb-controller-1", object{"spec": podSpec("")})
	add("/apis/discovery.k8s.io/v1", "endpointslices", "discovery.k8s.io/v1", "EndpointSlice", "ebb-1", "Service/ebb",
		object{"addressType": "IPv4", "endpoints": []object{}})
	add("/apis/coordination.k8s.io/v1", "leases", "coordination.k8s.io/v1", "Lease", "ebb-controller", "", nil)
	add(core, "pods", "v1", "Pod", "of-a-job", "Job/uninstall", object{"spec": podSpec("")})
	add(core, "pods", "v1", "Pod", "of-nobody", "", object{"spec": podSpec("")})
}

// runAgentAndKill leaves pins, a state file and a lock file.
func (b *fixture) runAgentAndKill() config.Config {
	b.Helper()
	c := agentrun.ConfigFor(b.node)
	p, err := agentrun.Start(b.Context(), agentrun.Options{Binary: filepath.Join(b.bin, "ebb-agent"), Dir: b.node.Dir(), Config: c})
	b.must(err)
	b.Cleanup(func() {
		if err := agentrun.Unload(c); err != nil {
			b.Errorf("unload: %v", err)
		}
	})
	b.must(p.Kill())
	return c
}
