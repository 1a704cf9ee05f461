package e2e

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/agent/uninstall"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

func configMap(name string, finalizers ...string) object {
	return object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": name, "finalizers": finalizers}}
}

// TestCheck: each reason to refuse, on the real thing; and each way to overrule it.
func TestCheck(t *testing.T) {
	b := newFixture(t, peers.Config{}, object{"imageGCHighThresholdPercent": 100, "imageMaximumGCAge": "0s"})
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
		b.Must(b, http.MethodPost, maps, configMap(at, finalizer))
		b.Must(b, http.MethodDelete, maps+"/"+at, nil)
	}
	b.Must(b, http.MethodPost, maps, configMap("alive", "orphan"))
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
	b.testAccount(name)
	b.testExamples()
	b.testHook(name)
	b.testKubelets(name)
}

// testLimited: what may not be read is named, and refuses.
func (b *fixture) testLimited(name string) {
	b.allow("some", peerstest.User("limited"), "list", "configmaps", "nodes")
	limited, err := b.Kubeconfig("limited")
	b.must(err)
	v := b.checkAs(limited, []string{"finalizers", "types", "nodes"}, proxy)
	b.wantIn(found(v, "types"), "deployments.apps: not allowed to list", "--leave-type ")
	b.wantIn(found(v, "nodes"), "1 "+name+": ", "not allowed", "nodes/proxy", "--leave-node "+name)
	b.checkAs(limited, []string{"nodes"}, proxy, "--other-collector")
	b.checkAs(limited, []string{"finalizers"}, proxy, "--leave-node", name, "--type", "configmaps")
}

func (b *fixture) allow(role string, who object, verb string, resources ...string) {
	b.Helper()
	b.Allow(b, role, who, object{"apiGroups": []string{""}, "resources": resources, "verbs": []string{verb}})
}

// testAccount: the kubelet itself is asked, in the name of an account that may do nothing
// else.
func (b *fixture) testAccount(name string) {
	_, account, _ := strings.Cut(uninstall.KubeletAccount, "/")
	asks, err := b.Kubeconfig("asks")
	b.must(err)
	b.allow("lists-nodes", peerstest.User("asks"), "list", "nodes")
	args := []string{"--controller=false"} // the usual account
	if _, errs, code := b.ebb(b.kubeconfig, nil, append([]string{"check"}, args...)...); code != 1 || !strings.Contains(errs, "--kubelet-proxy") {
		b.Errorf("without an account: exit code %d: %s", code, errs)
	}
	b.Must(b, http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts", object{"metadata": object{"name": account}})
	if _, errs, code := b.ebb(asks, nil, append([]string{"check"}, args...)...); code != 1 || !strings.Contains(errs, "serviceaccounts/token") {
		b.Errorf("exit code %d: %s", code, errs)
	}
	b.allow("makes-tokens", peerstest.User("asks"), "create", "serviceaccounts/token")
	v := b.checkAs(asks, []string{"nodes"}, args...)
	b.wantIn(found(v, "nodes"), "1 "+name+": ", "nodes/configz")
	b.allow("asks-kubelets", object{"kind": "ServiceAccount", "name": account, "namespace": namespace}, "get", "nodes/configz")
	b.eventually("the kubelet to forget that it may not", func(context.Context) error {
		if out, _, _ := b.ebb(asks, nil, append([]string{"check"}, args...)...); !strings.Contains(out, name+": imageGCHighThresholdPercent: 100") {
			return errors.New(out)
		}
		return nil
	})
	b.checkAs(asks, []string{"image-gc"}, args...)
}

// testHook: a hook has its flags from the environment, and prints how to set them.
func (b *fixture) testHook(name string) {
	env := []string{"EBB_UNINSTALL_WAIT=0s", "EBB_UNINSTALL_KUBELET_PROXY=true", "EBB_UNINSTALL_SAY=kubectl -n ebb create configmap ebb-uninstall"}
	out, _, code := b.ebb(b.kubeconfig, env, "check")
	if code != 3 {
		b.Errorf("exit code %d: %s", code, out)
	}
	b.wantIn(out, "wait for a garbage collector: 2\n", "not handed back: 1\n", "ebb must not be uninstalled yet",
		"leave it as it is: --from-literal=EBB_UNINSTALL_LEAVE_FINALIZERS=true", "leave it as it is: --from-literal=EBB_UNINSTALL_LEAVE_NODE="+name,
		"command: kubectl -n ebb create configmap ebb-uninstall\n")
	env = append(env, "EBB_UNINSTALL_LEAVE_FINALIZERS=true", "EBB_UNINSTALL_LEAVE_NODE=old-1,"+name)
	if out, errs, code := b.ebb(b.kubeconfig, env, "check"); code != 0 {
		b.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if _, errs, code := b.ebb(b.kubeconfig, append(env, "EBB_UNINSTALL_AGENT=maybe"), "check"); code != 2 || !strings.Contains(errs, "EBB_UNINSTALL_AGENT") {
		b.Errorf("exit code %d: %s", code, errs)
	}
}

// testKubelets: one that does not answer is unknown; one that has images back is not
// in the way.
func (b *fixture) testKubelets(name string) {
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
