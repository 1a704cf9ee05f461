package orphans

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Finalizers that real clusters carry, each on an object of a type that carries it, while
// the add-on is installed: on a living object they are no finding, on one that is being
// deleted none is removed by a command.
func TestFinalizersOfRealClusters(t *testing.T) {
	all := []struct{ group, kind, finalizer, by string }{
		// Kubernetes and its projects.
		{"", "Namespace", "kubernetes", "Kubernetes"},
		{"", "PersistentVolume", "kubernetes.io/pv-protection", "Kubernetes or one of its projects"},
		{"", "PersistentVolumeClaim", "kubernetes.io/pvc-protection", "Kubernetes or one of its projects"},
		{"", "PersistentVolume", "external-provisioner.volume.kubernetes.io/finalizer", "Kubernetes or one of its projects"},
		{"", "PersistentVolumeClaim", "snapshot.storage.kubernetes.io/pvc-as-source-protection", "Kubernetes or one of its projects"},
		{"", "Service", "service.kubernetes.io/load-balancer-cleanup", "Kubernetes or one of its projects"},
		{"", "Pod", "batch.kubernetes.io/job-tracking", "Kubernetes or one of its projects"},
		{"apiextensions.k8s.io", "CustomResourceDefinition", "customresourcecleanup.apiextensions.k8s.io", "Kubernetes or one of its projects"},
		{"snapshot.storage.k8s.io", "VolumeSnapshot", "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection", "Kubernetes or one of its projects"},
		{"cluster.x-k8s.io", "Machine", "machine.cluster.x-k8s.io", "cluster.x-k8s.io"},
		{"infrastructure.cluster.x-k8s.io", "AWSCluster", "awscluster.infrastructure.cluster.x-k8s.io", "cluster.x-k8s.io"},
		// CSI drivers that attach.
		{"", "PersistentVolume", "external-attacher/ebs-csi-aws-com", "CSIDriver ebs.csi.aws.com"},
		{"storage.k8s.io", "VolumeAttachment", "external-attacher/pd-csi-storage-gke-io", "CSIDriver pd.csi.storage.gke.io"},
		{"storage.k8s.io", "VolumeAttachment", "external-attacher/odd-X", "CSIDriver odd."},
		{"storage.k8s.io", "VolumeAttachment", "external-attacher/disk-csi-azure-com", ""}, // its CSIDriver is away
		// Clouds.
		{"", "Service", "service.k8s.aws/resources", "elbv2.k8s.aws"},
		{"networking.k8s.io", "Ingress", "ingress.k8s.aws/resources", "elbv2.k8s.aws"},
		{"elbv2.k8s.aws", "TargetGroupBinding", "elbv2.k8s.aws/resources", "elbv2.k8s.aws"},
		{"", "Service", "gke.networking.io/l4-ilb-v1", "GKE"},
		{"", "Service", "gke.networking.io/l4-netlb-v2", "GKE"},
		{"networking.k8s.io", "Ingress", "networking.gke.io/ingress-finalizer-V2", "networking.gke.io"},
		{"", "Node", "karpenter.sh/termination", "karpenter.sh"},
		{"karpenter.k8s.aws", "EC2NodeClass", "karpenter.k8s.aws/termination", "karpenter.k8s.aws"},
		// Add-ons with a domain.
		{"", "Namespace", "controller.cattle.io/namespace-auth", "management.cattle.io"},
		{"", "ConfigMap", "ceph.rook.io/disaster-protection", "ceph.rook.io"},
		{"ceph.rook.io", "CephCluster", "cephcluster.ceph.rook.io", "ceph.rook.io"},
		{"longhorn.io", "Volume", "longhorn.io", "longhorn.io"},
		{"argoproj.io", "Application", "resources-finalizer.argocd.argoproj.io", "argoproj.io"},
		{"source.toolkit.fluxcd.io", "GitRepository", "finalizers.fluxcd.io", "source.toolkit.fluxcd.io"},
		{"acme.cert-manager.io", "Challenge", "finalizer.acme.cert-manager.io", "acme.cert-manager.io"},
		{"tekton.dev", "PipelineRun", "chains.tekton.dev/pipelinerun", "tekton.dev"},
		{"pkg.crossplane.io", "Provider", "finalizer.managedresource.crossplane.io", "pkg.crossplane.io"},
		{"openebs.io", "CStorVolumeClaim", "cvc.openebs.io/finalizer", "openebs.io"},
		{"rabbitmq.com", "Federation", "deletion.finalizers.federations.rabbitmq.com", "rabbitmq.com"},
		{"postgresql.cnpg.io", "Database", "cnpg.io/deleteDatabase", "postgresql.cnpg.io"},
		{"velero.io", "Restore", "restores.velero.io/external-resources-finalizer", "velero.io"},
		// Custom resources, with no domain or with that of the controller's framework.
		{"machineremediation.kubevirt.io", "MachineRemediation", "foregroundDeleteMachineRemediationOperator", "machineremediation.kubevirt.io"},
		{"example.io", "HelmApp", "uninstall-helm-release", "example.io"},
		{"provisioning.grafana.app", "Repository", "remove-orphan-resources", "provisioning.grafana.app"},
		{"provisioning.grafana.app", "Repository", "cleanup", "provisioning.grafana.app"},
		{"example.io", "KopfApp", "kopf.zalando.org/KopfFinalizerMarker", ""},
		{"example.io", "KopfApp", "KopfFinalizerMarker", "example.io"},
		{"example.io", "MetaApp", "metacontroller.io/decoratorcontroller-backup", ""},
		{"", "ConfigMap", "hold", ""},
	}
	if len(all) < 40 {
		t.Fatalf("%d finalizers", len(all))
	}
	for _, terminating := range []bool{false, true} {
		l := New(Config{})
		l.Types(nil, map[string]string{"elbv2.k8s.aws/v1": "", "networking.gke.io/v1": "", "karpenter.sh/v1": "", "management.cattle.io/v3": ""})
		types := make(map[[2]string]gc.Type)
		observe := func(group, kind, name string, finalizers []string) {
			version := strings.TrimPrefix(group+"/v1", "/")
			if _, known := types[[2]string{group, kind}]; !known {
				ty := gc.Type{APIVersion: version, Kind: kind, Resource: strings.ToLower(kind) + "s"}
				types[[2]string{group, kind}] = ty
				l.Types([]gc.Type{ty}, nil)
				l.Listing(ty)
			}
			l.Observe(gc.Object{APIVersion: version, Kind: kind, Name: name, UID: name, ResourceVersion: "1", Finalizers: finalizers, Terminating: terminating && finalizers != nil}, time.Time{})
		}
		for _, driver := range []string{"ebs.csi.aws.com", "pd.csi.storage.gke.io", "odd."} {
			observe("storage.k8s.io", "CSIDriver", driver, nil)
		}
		for i, f := range all {
			observe(f.group, f.kind, fmt.Sprint(i), []string{f.finalizer})
		}
		for _, ty := range types {
			l.Synced(ty)
		}
		found := l.Findings(now)
		if !terminating {
			if len(found) > 0 {
				t.Errorf("on living objects: %+v", found)
			}
			continue
		}
		left := len(all)
		for _, f := range found {
			if f.Reason == NamespaceSilent {
				continue
			}
			left--
			var i int
			if _, err := fmt.Sscan(f.Object.Name, &i); err != nil {
				t.Fatal(err)
			}
			want := HeldByFinalizer
			if all[i].by == "" {
				want = HeldByUnknown
			}
			if f.Reason != want || !f.Looks || f.By != all[i].finalizer || !strings.Contains(f.Why, "belongs to "+all[i].by+" ") != (all[i].by == "") {
				t.Errorf("%+v, want %+v", f, all[i])
			}
		}
		if left != 0 {
			t.Errorf("%d have no finding", left)
		}
	}
}

// A command removes what was left behind by an add-on that was uninstalled, and nothing else.
func TestFinalizersLeftBehind(t *testing.T) {
	l := New(Config{})
	l.Types([]gc.Type{{APIVersion: "Widgets.example.io/v1", Kind: "W", Resource: "w"}, {APIVersion: "example.io/v1", Kind: "V", Resource: "v"}}, map[string]string{"stale.test/v1": "stale"})
	l.APIService(APIService{Name: "v1.far.test", Version: "v1.far.test/v1", Service: "a/b"})
	for finalizer, want := range map[string]string{
		"example.io/hold": "example.io", "EXAMPLE.io/hold": "example.io", "widgets.example.io/hold": "Widgets.example.io", "other.example.io/hold": "Widgets.example.io",
		"stale.test/hold": "stale.test", "far.test/hold": "v1.far.test",
		"notexample.io/hold": "gone", "kubernetes.io.evil.test/x": "gone", "x-k8s.io/hold": "gone", "vendor.test": "gone", "cattle.io/hold": "gone",
		"": "", "/": "", "hold": "", "io/hold": "", ".io/x": "", "example./x": "", "external-attacher/": "", "external-attacher": "",
	} {
		by, gone := l.server(gc.Coordinates{APIVersion: "v1", Kind: "ConfigMap"}, finalizer)
		if got := map[bool]string{true: "gone"}[gone] + by; got != want {
			t.Errorf("%q: %q, want %q", finalizer, got, want)
		}
	}
}

// Of a history only what nothing rests on is named, oldest first, and no more than is too
// much.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := New(Config{History: rapid.IntRange(1, 5).Draw(t, "history")})
		versions := rapid.SliceOfNDistinct(rapid.IntRange(0, 40), 0, 30, rapid.ID).Draw(t, "versions")
		status := make(map[string]string)
		for _, v := range versions {
			s := rapid.SampledFrom([]string{"superseded", "superseded", "failed", "uninstalled", "deployed", "pending-upgrade", "pending-rollback", "uninstalling", "unknown", "", "Superseded"}).Draw(t, "status")
			name := fmt.Sprintf("sh.helm.release.v1.web.v%d", v)
			status["secrets/"+name] = s
			l.Release(gc.Object{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: name, UID: name},
				map[string]string{"owner": "helm", "name": "web", "version": fmt.Sprint(v), "status": s})
		}
		found := l.Findings(now)
		many := len(versions) - l.config.History
		if (len(found) == 1) != (many > 0) || len(found) > 1 {
			t.Fatalf("%d too many: %+v", many, found)
		}
		if many <= 0 {
			return
		}
		slices.Sort(versions)
		var want []string
		for _, v := range versions[:len(versions)-1] {
			name := fmt.Sprintf("secrets/sh.helm.release.v1.web.v%d", v)
			if s := status[name]; (s == "superseded" || s == "failed" || s == "uninstalled") && len(want) < many {
				want = append(want, name)
			}
		}
		var got []string
		if c := found[0].Command; len(c) > 0 {
			if c[0] != "delete" || c[len(c)-1] != "--namespace=shop" {
				t.Fatalf("%q", c)
			}
			got = c[1 : len(c)-1]
		}
		if diff := cmp.Diff(want[:min(len(want), maxNamed)], got, cmp.Transformer("nil", func(s []string) string { return strings.Join(s, " ") })); diff != "" {
			t.Fatal(diff)
		}
	})
}

// An object is a revision only if its name and its labels both mark it as one.
func TestReleasesOfOthers(t *testing.T) {
	sound := func() (gc.Object, map[string]string) {
		return gc.Object{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "sh.helm.release.v1.web.v1", UID: "u"},
			map[string]string{"owner": "helm", "name": "web", "version": "1", "status": "superseded"}
	}
	for name, spoil := range map[string]func(*gc.Object, map[string]string){
		"owner":     func(_ *gc.Object, l map[string]string) { l["owner"] = "argo" },
		"no name":   func(_ *gc.Object, l map[string]string) { delete(l, "name") },
		"version":   func(_ *gc.Object, l map[string]string) { l["version"] = "2" },
		"no number": func(_ *gc.Object, l map[string]string) { l["version"] = "one" },
		"other":     func(_ *gc.Object, l map[string]string) { l["name"] = "db" },
		"going":     func(o *gc.Object, _ map[string]string) { o.Terminating = true },
		"secret":    func(o *gc.Object, _ map[string]string) { o.Name = "password" },
		"sound":     func(*gc.Object, map[string]string) {},
	} {
		l := New(Config{})
		o, labels := sound()
		spoil(&o, labels)
		l.Release(o, labels)
		if taken := len(l.releases) == 1; taken != (name == "sound") {
			t.Errorf("%s: taken: %v", name, taken)
		}
	}
}

func TestNamespaces(t *testing.T) {
	at := func(l *Inspection, n Namespace) []Finding {
		ns := gc.Type{APIVersion: "v1", Kind: "Namespace", Resource: "namespaces"}
		l.Types([]gc.Type{ns}, nil)
		l.Listing(ns)
		l.Observe(gc.Object{APIVersion: "v1", Kind: "Namespace", Name: "shop", UID: "u", ResourceVersion: "1", Terminating: true}, now.Add(-time.Hour))
		l.Observe(gc.Object{APIVersion: "v1", Kind: "Namespace", Name: "young", UID: "y", ResourceVersion: "1", Terminating: true}, now.Add(-time.Second))
		l.Synced(ns)
		if stuck := l.Stuck(now); len(stuck) != 1 || stuck[0].Name != "shop" {
			t.Fatalf("stuck: %+v", stuck)
		}
		l.Namespace("u", n)
		return l.Findings(now)
	}
	c := Config{OlderThan: time.Minute}
	found := at(New(c), Namespace{Conditions: []Condition{
		{"NamespaceDeletionDiscoveryFailure", "True", "DiscoveryFailed", "stale GroupVersion discovery: dead.test/v1"},
		{"NamespaceContentRemaining", "False", "", ""}, {"Novelty", "True", "", ""}}})
	if len(found) != 1 || found[0].Reason != NamespaceDiscovery || !found[0].Looks || found[0].By != "DiscoveryFailed" {
		t.Errorf("%+v", found)
	}
	l := New(c)
	l.APIService(APIService{Name: "v1.dead.test", Version: "dead.test/v1", Service: "a/b", Available: Condition{Status: "False", Reason: "ServiceNotFound"}, Since: now.Add(-time.Hour)})
	l.APIService(APIService{Name: "v1.alive.test", Version: "alive.test/v1", Service: "a/b", Available: Condition{Status: "True"}})
	l.APIService(APIService{Name: "v1.young.test", Version: "young.test/v1", Service: "a/b", Available: Condition{Status: "False"}, Since: now})
	l.APIService(APIService{Name: "v1.", Version: "/v1", Available: Condition{Status: "False"}})
	found = at(l, Namespace{Conditions: []Condition{{"NamespaceDeletionDiscoveryFailure", "True", "DiscoveryFailed", "stale GroupVersion discovery: dead.test/v1"}}})
	if len(found) != 2 || found[0].Reason != APIServiceDown || found[1].By != "v1.dead.test" || !slices.Equal(found[0].Command, found[1].Command) || found[1].Looks {
		t.Errorf("%+v", found)
	}
	for why, n := range map[string]Namespace{"reported nothing": {Finalizers: []string{"kubernetes"}}, "could not be read": {Unread: "forbidden"}} {
		if found := at(New(c), n); len(found) != 1 || found[0].Reason != NamespaceSilent || !strings.Contains(found[0].Why, why) {
			t.Errorf("%s: %+v", why, found)
		}
	}
}

func TestWebhooks(t *testing.T) {
	config := gc.Coordinates{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration", Resource: "validatingwebhookconfigurations", Name: "guard", UID: "u"}
	l := New(Config{})
	l.Webhook(Webhook{Config: config, Index: 0, Name: "well.test", Service: "a/well"})
	l.Webhook(Webhook{Config: config, Index: 1, Name: "fails.test", Service: "a/fails", Fails: true, Problem: "it has no endpoints"})
	l.Webhook(Webhook{Config: config, Index: 2, Name: "waits.test", Service: "a/waits", Problem: "it is not there"})
	found := l.Findings(now)
	if len(found) != 2 {
		t.Fatalf("%+v", found)
	}
	for i, want := range []struct{ by, why, patch string }{
		{"service a/fails", "webhook fails.test: it has no endpoints: the requests that it checks are refused", `"/webhooks/1/name","value":"fails.test"`},
		{"service a/waits", "webhook waits.test: it is not there: each request that it checks waits for it first", `"/webhooks/2/name","value":"waits.test"`},
	} {
		f := found[i]
		if f.Reason != WebhookDown || f.Object != config || f.Looks || f.By != want.by || !strings.Contains(f.Why, want.why) || !strings.Contains(strings.Join(f.Command, " "), want.patch) {
			t.Errorf("%+v, want %+v", f, want)
		}
	}
}

// An owner in the foreground waits for those that block it, of which one is shown.
func TestHeldByDependents(t *testing.T) {
	l := New(Config{})
	l.Types([]gc.Type{configMaps}, nil)
	l.Listing(configMaps)
	l.Observe(gc.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: "owner", UID: "o", ResourceVersion: "1", Terminating: true, Finalizers: []string{gc.ForegroundFinalizer}}, now.Add(-time.Hour))
	for _, name := range []string{"a", "b"} {
		l.Observe(gc.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: name, UID: name, ResourceVersion: "1",
			Owners: []gc.Reference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "o", Block: true}}}, time.Time{})
	}
	l.Synced(configMaps)
	found := l.Findings(now)
	if len(found) != 1 || found[0].Reason != HeldByDependents || found[0].Object.Name != "owner" || !strings.HasPrefix(found[0].By, "configmap/") ||
		!strings.HasSuffix(found[0].Why, ", 2 or more objects") || !found[0].Looks {
		t.Errorf("%+v", found)
	}
}

// A JSON patch has what is in names and finalizers, in letters that a terminal shows.
func TestQuote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		q := quote(s)
		var got string
		if err := json.Unmarshal([]byte(q), &got); err != nil || got != strings.ToValidUTF8(s, "\uFFFD") || strings.IndexFunc(q, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
			t.Fatalf("%q: %s, %q, %v", s, q, got, err)
		}
	})
}

// What an object with an owner takes, in a cluster in which all is well.
func TestMemory(t *testing.T) {
	const n, most = 100_000, 300
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	l := New(Config{})
	l.Types([]gc.Type{configMaps}, nil)
	l.Listing(configMaps)
	uid := func(i int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", i) }
	for i := range n {
		o := gc.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: fmt.Sprint("namespace-", i%50), Name: fmt.Sprintf("web-7c9d8f6b5-%05d", i), UID: uid(i), ResourceVersion: fmt.Sprint(i + 1)}
		if i >= 1000 {
			o.Owners = []gc.Reference{{APIVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprintf("web-7c9d8f6b5-%05d", i%1000), UID: uid(i % 1000), Block: true}}
		}
		l.Observe(o, time.Time{})
	}
	l.Synced(configMaps)
	if q := l.Questions(); len(q) > 0 {
		t.Fatalf("%d questions", len(q))
	}
	if f := l.Findings(now); len(f) > 0 {
		t.Fatalf("%+v", f[0])
	}
	each := (heap() - before) / n
	t.Logf("%d bytes an object", each)
	if each > most {
		t.Errorf("%d bytes an object, want %d at most", each, most)
	}
	runtime.KeepAlive(l)
}
