package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/agent/orphans"
	rules "github.com/ebb-agent/ebb/policy/orphans"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

// testMend runs each command once, as it is printed. Those that mend do, and what they
// were for is not reported any more; what is left waits for others.
func (b *fixture) testMend(t *testing.T) {
	before, _ := b.report(t, "-A")
	done := map[string]bool{}
	for _, f := range before.Findings {
		if f.Command == "" || done[f.Command] {
			continue
		}
		done[f.Command] = true
		if out, err := b.shell(t, f.Command); err != nil {
			t.Errorf("%s: %v\n%s\n%s", called(f), err, f.Command, out)
		}
	}
	want := []string{"held_by_dependents shop configmaps/parent", "held_by_finalizer  volumeattachments.storage.k8s.io/attached",
		"held_by_finalizer shop widgets.example.io/machine", "held_by_finalizer shop widgets.example.io/served", "held_by_unknown_finalizer shop configmaps/bare",
		"held_for_garbage_collector shop configmaps/alone"}
	await.Holds(t, patience, "what was mended not to be reported", func(context.Context) error {
		r, _ := b.report(t, "-A")
		if diff := cmp.Diff(want, all(r)); diff != "" || !r.Complete {
			return fmt.Errorf("complete: %v, %v, reported (+):\n%s", r.Complete, r.NotSeen, diff)
		}
		return nil
	})
	for path, there := range map[string]bool{
		"/api/v1/namespaces/stuck": false, "/api/v1/namespaces/shop/configmaps/held": false, "/api/v1/namespaces/shop/configmaps/alone": true,
		"/api/v1/namespaces/shop/configmaps/of-gone-type": true, "/api/v1/namespaces/shop/configmaps/of-gone": true, "/api/v1/namespaces/shop/configmaps/of-other": true,
		"/api/v1/namespaces/other/configmaps/far": true, "/apis/example.io/v1/realms/of-namespaced": true, "/api/v1/namespaces/shop/configmaps/living-held": true,
		"/apis/storage.k8s.io/v1/volumeattachments/attached": true, "/apis/example.io/v1/namespaces/shop/widgets/machine": true, "/api/v1/namespaces/shop/configmaps/bare": true,
		"/api/v1/namespaces/shop/secrets/sh.helm.release.v1.web.v1": false, "/api/v1/namespaces/shop/secrets/sh.helm.release.v1.web.v2": true,
		"/api/v1/namespaces/shop/secrets/sh.helm.release.v1.web.v3": false, "/api/v1/namespaces/shop/secrets/sh.helm.release.v1.web.v4": false,
		"/api/v1/namespaces/shop/secrets/sh.helm.release.v1.web.v5": true,
	} {
		if err := b.get(t, path); (err == nil) != there {
			t.Errorf("%s is there: %v", path, err == nil)
		}
	}
	var hooks struct{ Webhooks []struct{ Name string } }
	b.Read(t, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hooks", &hooks)
	if len(hooks.Webhooks) != 1 || hooks.Webhooks[0].Name != "away.vendor.test" {
		t.Errorf("of the webhooks %+v are left", hooks.Webhooks)
	}
	var owned struct {
		Metadata struct{ OwnerReferences []reference }
	}
	b.Read(t, "/api/v1/namespaces/shop/configmaps/of-gone", &owned)
	if refs := owned.Metadata.OwnerReferences; len(refs) != 1 || refs[0]["name"] != "living" {
		t.Errorf("the owners that are left: %v", refs)
	}
	b.Read(t, "/api/v1/namespaces/shop/configmaps/of-gone-version", &owned)
	if refs := owned.Metadata.OwnerReferences; len(refs) != 1 || refs[0]["apiVersion"] != "example.io/v1" {
		t.Errorf("the owner in a version that is served: %v", refs)
	}
	for _, f := range before.Findings { // a command of before finds nothing to do, and does nothing else
		if f.Reason == "owner_absent" {
			if out, err := b.shell(t, f.Command); err == nil {
				t.Errorf("a second %s: %s", f.Command, out)
			}
		}
	}
}

// testNamespace: of one namespace, and what holds all of them.
func (b *fixture) testNamespace(t *testing.T) {
	r, code := b.report(t, "-n", "stuck")
	want := []string{
		"apiservice_unavailable  apiservices.apiregistration.k8s.io/v1.dead.test", "held_by_unserved_finalizer stuck configmaps/inside",
		"namespace_content_remaining  namespaces/stuck", "namespace_discovery_failure  namespaces/stuck", "namespace_finalizers_remaining  namespaces/stuck",
		"webhook_unreachable  validatingwebhookconfigurations.admissionregistration.k8s.io/hooks",
	}
	if diff := cmp.Diff(want, all(r)); diff != "" || code != 3 {
		t.Errorf("exit code %d\n%s", code, diff)
	}
	r, _ = b.report(t, "-n", "default", "--kubeconfig", b.kubeconfig)
	if slices.ContainsFunc(r.Findings, func(f orphans.Finding) bool { return f.Object.Namespace != "" }) {
		t.Errorf("another namespace: %v", all(r))
	}
}

// testInProcess runs it where the race detector looks on.
func (b *fixture) testInProcess(t *testing.T, want []string) {
	config, err := clientcmd.BuildConfigFromFlags("", b.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	listed, types := 0, 0
	r, err := orphans.Scan(t.Context(), orphans.Options{Config: config, Rules: rules.Config{OlderThan: time.Second, History: 2},
		Progress: func(n, of, _ int) { listed, types = n, of }})
	if diff := cmp.Diff(want, all(r)); err != nil || diff != "" || listed != types || listed != r.Types {
		t.Errorf("%v, read %d of %d types, %d in the report\n%s", err, listed, types, r.Types, diff)
	}
}

func (b *fixture) testFormats(t *testing.T) {
	base := []string{"-A", "--older-than", "1s", "--release-history", "2", "--kubeconfig", b.kubeconfig}
	names, errs, code := b.run(t, append(base, "-o", "name")...)
	lines := strings.Split(strings.TrimSpace(names), "\n")
	if code != 3 || !slices.Contains(lines, "configmaps/held") || len(lines) < 15 || strings.ContainsAny(names, "\x1b\u202e") || !strings.Contains(errs, "incomplete") {
		t.Errorf("exit code %d\n%s\n%s", code, names, errs)
	}
	text, _, _ := b.run(t, append(base, "-o", "yaml")...)
	var r orphans.Report
	if err := yaml.UnmarshalStrict([]byte(text), &r); err != nil || len(r.Findings) < 15 {
		t.Errorf("%v: %d findings", err, len(r.Findings))
	}
	for _, f := range r.Findings {
		if f.Command != "" && !strings.HasPrefix(f.Command, "kubectl --kubeconfig="+b.kubeconfig+" ") {
			t.Errorf("not for this cluster: %s", f.Command)
		}
	}
	if _, errs, code := b.run(t, "-A", "--kubeconfig", "/nowhere"); code != 1 || !strings.Contains(errs, "/nowhere") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// testForbidden: objects that a user may not read are reported as unknown, never as absent.
func (b *fixture) testForbidden(t *testing.T) {
	b.Allow(t, "some", peerstest.User("somebody"), object{"apiGroups": []string{""}, "resources": []string{"configmaps"}, "verbs": []string{"get", "list"}})
	kubeconfig, err := b.Kubeconfig("somebody")
	if err != nil {
		t.Fatal(err)
	}
	b.configMap(t, "other", "of-unseen", object{"ownerReferences": []reference{
		b.create(t, "/apis/example.io/v1/namespaces/other/widgets", "example.io/v1", "Widget", "unseen", object{})}})
	await.Holds(t, patience, "the rights of somebody", func(context.Context) error {
		r, _ := b.report(t, "-n", "other", "--kubeconfig", kubeconfig)
		var reasons []string
		for _, f := range r.Findings {
			if f.Object.Name == "of-unseen" {
				reasons = append(reasons, f.Reason)
			}
		}
		if r.Complete || !slices.Equal(reasons, []string{"owner_unknown"}) {
			return fmt.Errorf("complete: %v, %v", r.Complete, all(r))
		}
		return nil
	})
	b.delete(t, "/api/v1/namespaces/other/configmaps/of-unseen", "Background")
}
