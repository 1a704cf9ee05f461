package e2e

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ebb-agent/ebb/agent/sysdump"
	"github.com/ebb-agent/ebb/agent/sysdump/sysdumptest"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object = map[string]any

const (
	namespace = "ebb-system"
	planted   = "correct-horse-battery-staple" // in every place that may hold a secret
	reporter  = "reporter"
)

// silent is an agent and a controller that say little.
type silent struct{}

func (silent) Page(_ context.Context, node, path string) ([]byte, error) {
	return []byte(node + " " + path + ` {"bearerToken":"` + planted + `"}`), nil
}

func (silent) Run(_ context.Context, pod, _ string, command ...string) ([]byte, error) {
	return []byte(pod + " " + strings.Join(command, " ")), nil
}

// fixture is a control plane with what ebb is made of.
type fixture struct {
	*testing.T
	cp    *peers.ControlPlane
	admin *http.Client
}

func (b *fixture) make(path string, in object) {
	b.Helper()
	if err := peers.Request(b.Context(), b.admin, http.MethodPost, b.cp.URL()+path, in, nil); err != nil {
		b.Fatal(err)
	}
}

func pod(name, component string) object {
	return object{
		"metadata": object{
			"name": name, "labels": object{"app.kubernetes.io/name": "ebb", "app.kubernetes.io/component": component},
			"annotations": object{"ebb/config": "abc", "kubectl.kubernetes.io/last-applied-configuration": planted},
		},
		"spec": object{
			"nodeName":   "worker-1",
			"containers": []object{{"name": component, "image": "ebb", "args": []string{"--password", planted}, "env": []object{{"name": "PLAIN", "value": planted}}}},
			"volumes":    []object{{"name": "config", "configMap": object{"name": "ebb-config"}}, {"name": "other", "secret": object{"secretName": "ebb-secret"}}},
		},
	}
}

func (b *fixture) fill() {
	const ns = "/api/v1/namespaces/" + namespace
	b.make("/api/v1/namespaces", object{"metadata": object{"name": namespace}})
	b.make("/api/v1/nodes", object{"metadata": object{"name": "worker-1", "annotations": object{"join": planted}}})
	b.make(ns+"/secrets", object{"metadata": object{"name": "ebb-secret"}, "stringData": object{"password": planted}})
	b.make(ns+"/configmaps", object{"metadata": object{"name": "ebb-config"}, "data": object{"agent.yaml": "mode: observe\ntoken: " + planted + "\n"}})
	b.make(ns+"/configmaps", object{"metadata": object{"name": "of-others"}, "data": object{"x": planted}})
	b.make(ns+"/pods", pod("ebb-agent-1", "agent"))
	b.make(ns+"/pods", pod("ebb-controller-1", "controller"))
	b.make(ns+"/events", object{
		"metadata": object{"name": "e"}, "involvedObject": object{"kind": "Pod", "name": "ebb-agent-1", "namespace": namespace},
		"reason": "Failed", "message": "secret=" + planted, "type": "Warning",
	})
	b.make("/apis/coordination.k8s.io/v1/namespaces/"+namespace+"/leases", object{"metadata": object{"name": "ebb-controller"}, "spec": object{"holderIdentity": "ebb-controller-1_uid"}})
}

// reporter has the rights that the help names, and no others.
func (b *fixture) reporter() *rest.Config {
	b.Helper()
	const rbac = "/apis/rbac.authorization.k8s.io/v1"
	subjects := []object{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": reporter}}
	b.make(rbac+"/namespaces/"+namespace+"/roles", object{"metadata": object{"name": reporter}, "rules": []object{
		{"apiGroups": []string{""}, "resources": []string{"pods", "pods/log", "events", "configmaps"}, "verbs": []string{"get", "list"}},
		{"apiGroups": []string{"apps"}, "resources": []string{"daemonsets", "deployments"}, "verbs": []string{"list"}},
		{"apiGroups": []string{"coordination.k8s.io"}, "resources": []string{"leases"}, "verbs": []string{"list"}},
	}})
	b.make(rbac+"/namespaces/"+namespace+"/rolebindings", object{
		"metadata": object{"name": reporter}, "subjects": subjects, "roleRef": object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": reporter}})
	b.make(rbac+"/clusterroles", object{"metadata": object{"name": reporter}, "rules": []object{{"apiGroups": []string{""}, "resources": []string{"nodes"}, "verbs": []string{"get"}}}})
	b.make(rbac+"/clusterrolebindings", object{
		"metadata": object{"name": reporter}, "subjects": subjects, "roleRef": object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": reporter}})
	path, err := b.cp.Kubeconfig(reporter)
	if err != nil {
		b.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		b.Fatal(err)
	}
	return config
}

// TestSysdump: with exactly those rights all is there but logs, for which a kubelet is
// missing; the API server was only read, and never asked for a Secret.
func TestSysdump(t *testing.T) {
	b := &fixture{T: t, cp: peerstest.StartControlPlane(t, peers.Config{Audit: true})}
	var err error
	if b.admin, err = b.cp.Admin(); err != nil {
		t.Fatal(err)
	}
	b.fill()
	var out bytes.Buffer
	s, err := sysdump.Write(t.Context(), sysdump.Options{
		Config: b.reporter(), Namespace: namespace, Remote: silent{}, MaxNodes: 20, LogLines: 10, Progress: func(what string) { t.Log(what) },
	}, &out)
	if err != nil || s.Errors != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	files := sysdumptest.Unpack(t, &out)
	for name, want := range map[string]string{
		"versions.yaml": "gitVersion: v1.", "pods/ebb-agent-1.yaml": "secretName: ebb-secret", "pods/ebb-controller-1.yaml": "ebb/config: abc",
		"configmaps/ebb-config.yaml": "mode: observe", "events.yaml": "reason: Failed", "leases.yaml": "holderIdentity: ebb-controller-1_uid",
		"daemonsets.yaml": "DaemonSetList", "deployments.yaml": "DeploymentList", "nodes/worker-1/node.yaml": "name: worker-1",
		"nodes/worker-1/status.json": "/status", "controllers/ebb-controller-1/types.txt": "ebb control types", "errors.txt": "ebb-agent-1-agent.log: ",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s does not say %q:\n%s", name, want, files[name])
		}
	}
	for name, text := range files {
		if strings.Contains(text, planted) {
			t.Errorf("%s has the secret:\n%s", name, text)
		}
	}
	b.onlyRead()
}

func (b *fixture) onlyRead() {
	b.Helper()
	mine := 0
	_, err := b.cp.ReadAudit(0, func(e peers.AuditEvent) {
		if e.User.Username != reporter {
			return
		}
		mine++
		if !slices.Contains([]string{"get", "list"}, e.Verb) || strings.Contains(e.RequestURI, "secrets") {
			b.Errorf("%s %s", e.Verb, e.RequestURI)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	if mine < 10 {
		b.Errorf("%d requests", mine)
	}
}
