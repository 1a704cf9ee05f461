package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/agent/orphans"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

const (
	vendor  = "cleanup.vendor.test/hold" // nobody serves this
	hostile = "it's; $(touch here) `id`\x1b[31m \u202etxt"
)

// Each kind of orphan is made, found, and nothing else is; then the commands are run, and
// their lines go.
func TestOrphans(t *testing.T) {
	b := start(t)
	b.Define(t, peerstest.Definition("example.io", "Widget", "widgets", "Namespaced", "v1"))
	b.Define(t, peerstest.Definition("example.io", "Realm", "realms", "Cluster", "v1"))
	b.healthy(t)
	if r, code := b.report(t, "-A"); code != 0 || len(r.Findings) > 0 || !r.Complete {
		t.Fatalf("a healthy cluster: exit code %d, %s", code, dump(r))
	}
	want := slices.Concat(b.owners(t), b.stuck(t), b.servers(t), b.histories(t))
	slices.Sort(want)
	var r orphans.Report
	await.Holds(t, patience, "all to be reported", func(context.Context) error {
		var code int
		if r, code = b.report(t, "-A"); code != 3 {
			return fmt.Errorf("exit code %d", code)
		}
		if diff := cmp.Diff(want, all(r)); diff != "" {
			return fmt.Errorf("reported (+) and made (-):\n%s", diff)
		}
		return nil
	})
	text, errs, code := b.run(t, "-A", "--older-than", "1s", "--release-history", "2", "--kubeconfig", b.kubeconfig)
	t.Logf("exit code %d\n%s%s", code, text, errs)
	if strings.ContainsAny(text, "\x1b\u202e") || !strings.Contains(text, "INCOMPLETE") {
		t.Error("the text hides something, or shows too much")
	}
	t.Run("one namespace", func(t *testing.T) { b.testNamespace(t) })
	t.Run("in process", func(t *testing.T) { b.testInProcess(t, want) })
	t.Run("formats", func(t *testing.T) { b.testFormats(t) })
	t.Run("forbidden", func(t *testing.T) { b.testForbidden(t) })
	t.Run("mend", func(t *testing.T) { b.testMend(t) })
}

// healthy makes living objects with finalizers: of an attached volume, of a custom resource
// whose finalizer has no domain, and of an add-on that serves no types.
func (b *fixture) healthy(t *testing.T) {
	b.Namespace(t, "shop")
	held := func(f string) object { return object{"finalizers": []string{f}} }
	b.create(t, "/apis/storage.k8s.io/v1/csidrivers", "storage.k8s.io/v1", "CSIDriver", "disk.csi.test", object{}, object{"spec": object{}})
	b.create(t, "/api/v1/persistentvolumes", "v1", "PersistentVolume", "attached", held("external-attacher/disk-csi-test"), object{"spec": object{
		"capacity": object{"storage": "1Gi"}, "accessModes": []string{"ReadWriteOnce"}, "csi": object{"driver": "disk.csi.test", "volumeHandle": "1"}}})
	b.create(t, "/apis/storage.k8s.io/v1/volumeattachments", "storage.k8s.io/v1", "VolumeAttachment", "attached", held("external-attacher/disk-csi-test"), object{"spec": object{
		"attacher": "disk.csi.test", "nodeName": "worker", "source": object{"persistentVolumeName": "attached"}}})
	b.create(t, "/apis/example.io/v1/namespaces/shop/widgets", "example.io/v1", "Widget", "machine", held("foregroundDeleteMachine"))
	b.configMap(t, "shop", "living-held", held("future.vendor.test/hold"))
}

// owners makes objects whose owners cannot be resolved.
func (b *fixture) owners(t *testing.T) []string {
	b.Namespace(t, "other")
	owned := func(r reference) object { return object{"ownerReferences": []reference{r}} }
	b.Define(t, peerstest.Definition("gone.test", "Gadget", "gadgets", "Namespaced", "v1"))
	gadget := b.create(t, "/apis/gone.test/v1/namespaces/shop/gadgets", "gone.test/v1", "Gadget", "g", object{})
	b.configMap(t, "shop", "of-gone-type", owned(gadget))
	b.Must(t, http.MethodDelete, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.gone.test", nil)
	await.Holds(t, patience, "the type to go", func(context.Context) error {
		if b.get(t, "/apis/gone.test/v1/gadgets") == nil {
			return fmt.Errorf("it is served")
		}
		return nil
	})
	old := object{"apiVersion": "example.io/v1alpha1", "kind": "Widget", "name": "w"}
	old["uid"] = b.create(t, "/apis/example.io/v1/namespaces/shop/widgets", "example.io/v1", "Widget", "w", object{})["uid"]
	b.configMap(t, "shop", "of-gone-version", owned(old))

	living := b.configMap(t, "shop", "living", object{})
	b.configMap(t, "shop", "well", owned(living))
	b.create(t, "/apis/example.io/v1/realms", "example.io/v1", "Realm", "of-namespaced", owned(living))
	b.configMap(t, "other", "far", owned(living))
	gone := b.configMap(t, "shop", "gone", object{})
	b.configMap(t, "shop", "of-gone", object{"ownerReferences": []reference{living, gone}})
	b.delete(t, "/api/v1/namespaces/shop/configmaps/gone", "Background")
	again := b.configMap(t, "shop", "again", object{})
	b.configMap(t, "shop", "of-other", owned(again))
	b.delete(t, "/api/v1/namespaces/shop/configmaps/again", "Background")
	b.configMap(t, "shop", "again", object{})
	return []string{
		"owner_type_not_served shop configmaps/of-gone-type", "owner_version_not_served shop configmaps/of-gone-version",
		"owner_namespaced  realms.example.io/of-namespaced", "owner_in_other_namespace other configmaps/far",
		"owner_absent shop configmaps/of-gone", "owner_replaced shop configmaps/of-other",
	}
}

// stuck makes what does not go.
func (b *fixture) stuck(t *testing.T) []string {
	held := func(f string) object { return object{"finalizers": []string{f}} }
	b.configMap(t, "shop", "held", held(vendor))
	b.delete(t, "/api/v1/namespaces/shop/configmaps/held", "Background")
	b.create(t, "/apis/example.io/v1/namespaces/shop/widgets", "example.io/v1", "Widget", "served", held("example.io/hold"))
	b.delete(t, "/apis/example.io/v1/namespaces/shop/widgets/served", "Background")
	b.configMap(t, "shop", "alone", object{})
	b.delete(t, "/api/v1/namespaces/shop/configmaps/alone", "Foreground")
	owner := b.configMap(t, "shop", "parent", object{})
	b.configMap(t, "shop", "child", object{"ownerReferences": []reference{owner}})
	b.delete(t, "/api/v1/namespaces/shop/configmaps/parent", "Foreground")
	b.configMap(t, "shop", "bare", held("team/hold"))
	b.delete(t, "/api/v1/namespaces/shop/configmaps/bare", "Background")
	b.delete(t, "/apis/storage.k8s.io/v1/volumeattachments/attached", "Background")
	b.delete(t, "/apis/example.io/v1/namespaces/shop/widgets/machine", "Background")
	b.create(t, "/apis/rbac.authorization.k8s.io/v1/clusterroles", "rbac.authorization.k8s.io/v1", "ClusterRole", hostile, held(vendor))
	b.delete(t, "/apis/rbac.authorization.k8s.io/v1/clusterroles/"+strings.NewReplacer(" ", "%20", ";", "%3B", "`", "%60", "\x1b", "%1B", "[", "%5B", "\u202e", "%E2%80%AE").Replace(hostile), "Background")
	b.Namespace(t, "stuck")
	b.configMap(t, "stuck", "inside", held(vendor))
	return []string{
		"held_by_unserved_finalizer shop configmaps/held", "held_by_finalizer shop widgets.example.io/served",
		"held_for_garbage_collector shop configmaps/alone", "held_by_dependents shop configmaps/parent",
		"held_by_unknown_finalizer shop configmaps/bare", "held_by_finalizer  volumeattachments.storage.k8s.io/attached", "held_by_finalizer shop widgets.example.io/machine",
		"held_by_unserved_finalizer  clusterroles.rbac.authorization.k8s.io/" + hostile,
		"held_by_unserved_finalizer stuck configmaps/inside",
	}
}

// servers registers an API server and a webhook that nobody is behind, and then deletes a
// namespace.
func (b *fixture) servers(t *testing.T) []string {
	b.create(t, "/apis/apiregistration.k8s.io/v1/apiservices", "apiregistration.k8s.io/v1", "APIService", "v1.dead.test", object{}, object{"spec": object{
		"group": "dead.test", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": true,
		"service": object{"namespace": "shop", "name": "nobody"}}})
	hook := func(name string, service object) object {
		return object{"name": name, "sideEffects": "None", "admissionReviewVersions": []string{"v1"}, "clientConfig": service,
			"rules": []object{{"apiGroups": []string{"nothing.test"}, "apiVersions": []string{"*"}, "operations": []string{"CREATE"}, "resources": []string{"*"}}}}
	}
	b.create(t, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "hooks",
		object{}, object{"webhooks": []object{
			hook("away.vendor.test", object{"url": "https://127.0.0.1:1/"}),
			hook("dead.vendor.test", object{"service": object{"namespace": "shop", "name": "nobody"}})}})
	await.Holds(t, patience, "the APIService to be known as unavailable", func(context.Context) error {
		var s struct {
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
		b.Read(t, "/apis/apiregistration.k8s.io/v1/apiservices/v1.dead.test", &s)
		if c := s.Status.Conditions; len(c) == 0 || c[0].Status != "False" {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	b.Must(t, http.MethodDelete, "/api/v1/namespaces/stuck", nil)
	b.Must(t, http.MethodDelete, "/api/v1/namespaces/stuck/configmaps/inside", nil)
	return []string{
		"apiservice_unavailable  apiservices.apiregistration.k8s.io/v1.dead.test",
		"webhook_unreachable  validatingwebhookconfigurations.admissionregistration.k8s.io/hooks",
		"namespace_discovery_failure  namespaces/stuck", "namespace_content_remaining  namespaces/stuck", "namespace_finalizers_remaining  namespaces/stuck",
	}
}

// histories makes a release with five revisions, of which the second is deployed, and one
// with two.
func (b *fixture) histories(t *testing.T) []string {
	for _, r := range []struct {
		name   string
		status []string
	}{{"web", []string{"superseded", "deployed", "failed", "failed", "failed"}}, {"db", []string{"superseded", "deployed"}}} {
		for i, status := range r.status {
			b.create(t, "/api/v1/namespaces/shop/secrets", "v1", "Secret", fmt.Sprintf("sh.helm.release.v1.%s.v%d", r.name, i+1),
				object{"labels": object{"owner": "helm", "name": r.name, "version": fmt.Sprint(i + 1), "status": status}}, object{"type": "helm.sh/release.v1"})
		}
	}
	return []string{"release_history shop secrets/sh.helm.release.v1.web.v1"}
}

func all(r orphans.Report) (list []string) {
	for _, f := range r.Findings {
		list = append(list, called(f))
	}
	slices.Sort(list)
	return list
}

func dump(v any) string {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}
