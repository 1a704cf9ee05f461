package e2e

import (
	"net/http"
	"os"
	"strings"
	"testing"
)

func configMap(name string, finalizers ...string) object {
	return object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": name, "finalizers": finalizers}}
}

// TestCheck: each reason to refuse, on the real thing; and each way to overrule it.
func TestCheck(t *testing.T) {
	b := newBed(t, object{"imageGCHighThresholdPercent": 100, "imageMaximumGCAge": "0s"})
	name := b.kubelet.NodeName()

	v := b.check([]string{"image-gc"})
	b.wantIn(found(v, "image-gc"), "1 "+name, "imageGCHighThresholdPercent: 100", "--leave-node "+name, "--leave-image-gc")
	if v.Objects < 20 || v.Types < 20 || v.Nodes != 1 {
		t.Errorf("it looked at %d objects of %d types, and %d nodes", v.Objects, v.Types, v.Nodes)
	}
	b.check(nil, "--leave-node", name)
	b.check(nil, "--leave-image-gc")
	b.check(nil, "--agent=false")

	const maps = "/api/v1/namespaces/default/configmaps"
	for _, finalizer := range []string{"orphan", "foregroundDeletion", "example.io/mine"} {
		at := strings.ToLower(strings.ReplaceAll(finalizer, "/", "."))
		b.do(http.MethodPost, maps, configMap(at, finalizer), nil)
		b.do(http.MethodDelete, maps+"/"+at, nil, nil)
	}
	b.do(http.MethodPost, maps, configMap("alive", "orphan"), nil)
	v = b.check([]string{"finalizers", "image-gc"})
	text := found(v, "finalizers")
	b.wantIn(text, "2 configmaps default/foregrounddeletion (foregroundDeletion, being deleted since 20", "configmaps default/orphan (orphan,")
	if strings.Contains(text, "mine") || strings.Contains(text, "alive") {
		t.Errorf("what waits for somebody else is named: %s", text)
	}
	b.check([]string{"image-gc"}, "--other-collector")
	b.check([]string{"image-gc"}, "--leave-finalizers")
	b.check([]string{"image-gc"}, "--controller=false")
	b.check([]string{"image-gc"}, "--type", "secrets,deployments.apps")
	b.check([]string{"finalizers"}, "--type", "configmaps", "--agent=false")
	v = b.check([]string{"types"}, "--type", "carrots.example.io", "--agent=false")
	b.wantIn(found(v, "types"), "1 carrots.example.io: no such type is served", "--leave-type carrots.example.io")

	b.testLimited(name)
	b.testHook(name)
	b.testKubelets(name)
}

// testLimited: what may not be read is named, and refuses.
func (b *bed) testLimited(name string) {
	b.do(http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterroles", object{"metadata": object{"name": "some"}, "rules": []object{
		{"apiGroups": []string{""}, "resources": []string{"configmaps", "nodes"}, "verbs": []string{"list"}}}}, nil)
	b.do(http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", object{"metadata": object{"name": "some"},
		"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "some"},
		"subjects": []object{{"kind": "User", "name": "limited"}}}, nil)
	limited, err := b.cp.Kubeconfig("limited")
	b.must(err)
	v := b.checkAs(limited, []string{"finalizers", "types", "nodes"})
	b.wantIn(found(v, "types"), "deployments.apps: not allowed to list", "--leave-type ")
	b.wantIn(found(v, "nodes"), "1 "+name+": not allowed", "nodes/proxy", "--leave-node "+name)
	b.checkAs(limited, []string{"nodes"}, "--other-collector")
	b.checkAs(limited, []string{"finalizers"}, "--leave-node", name, "--type", "configmaps")
}

// testHook: a hook has its flags from the environment, and says how to set them.
func (b *bed) testHook(name string) {
	env := []string{"EBB_UNINSTALL_WAIT=0s", "EBB_UNINSTALL_SAY=kubectl -n ebb create configmap ebb-uninstall"}
	out, _, code := b.ebb(b.kubeconfig, env, "check")
	if code != 1 {
		b.Errorf("exit code %d: %s", code, out)
	}
	b.wantIn(out, "wait for a garbage collector: 2\n", "not handed back: 1\n", "ebb must not be uninstalled yet",
		"kubectl -n ebb create configmap ebb-uninstall --from-literal=EBB_UNINSTALL_LEAVE_FINALIZERS=true",
		"kubectl -n ebb create configmap ebb-uninstall --from-literal=EBB_UNINSTALL_LEAVE_NODE="+name)
	env = append(env, "EBB_UNINSTALL_LEAVE_FINALIZERS=true", "EBB_UNINSTALL_LEAVE_NODE=old-1,"+name)
	if out, errs, code := b.ebb(b.kubeconfig, env, "check"); code != 0 {
		b.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if _, errs, code := b.ebb(b.kubeconfig, append(env, "EBB_UNINSTALL_AGENT=maybe"), "check"); code != 3 || !strings.Contains(errs, "EBB_UNINSTALL_AGENT") {
		b.Errorf("exit code %d: %s", code, errs)
	}
}

// testKubelets: one that does not answer is unknown; one that has images back is not
// in the way.
func (b *bed) testKubelets(name string) {
	b.must(b.kubelet.Kill())
	v := b.check([]string{"nodes"}, "--controller=false")
	b.wantIn(found(v, "nodes"), "1 "+name+": ")
	b.check(nil, "--controller=false", "--leave-node", name)

	text, err := os.ReadFile(b.kubelet.ConfigFile())
	b.must(err)
	back := strings.ReplaceAll(string(text), "imageGCHighThresholdPercent: 100", "imageGCHighThresholdPercent: 85")
	b.must(os.WriteFile(b.kubelet.ConfigFile(), []byte(back), 0o600))
	b.must(b.kubelet.Start(b.Context()))
	b.check(nil, "--controller=false")
}
