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

func TestServes(t *testing.T) {
	l := New(Config{})
	l.Types([]gc.Type{{APIVersion: "acme.cert-manager.io/v1", Kind: "Order", Resource: "orders"}, {APIVersion: "Widgets.example.io/v1", Kind: "W", Resource: "w"},
		{APIVersion: "example.io/v1", Kind: "V", Resource: "v"}}, map[string]string{"stale.test/v1": "stale"})
	l.APIService(APIService{Name: "v1.far.test", Version: "v1.far.test/v1", Service: "a/b"})
	for finalizer, want := range map[string]string{
		"kubernetes": "Kubernetes", "foregroundDeletion": "Kubernetes", "orphan": "Kubernetes",
		"kubernetes.io/pvc-protection": "Kubernetes or one of its projects", "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection": "Kubernetes or one of its projects",
		"finalizer.acme.cert-manager.io": "acme.cert-manager.io", "cert-manager.io/hold": "acme.cert-manager.io",
		"example.io/hold": "example.io", "EXAMPLE.io/hold": "example.io", "widgets.example.io/hold": "Widgets.example.io", "other.example.io/hold": "Widgets.example.io",
		"stale.test/hold": "stale.test", "far.test/hold": "v1.far.test",
		"": "", "/": "", "hold": "", "io/hold": "", "notexample.io/hold": "", "kubernetes.io.evil.test/x": "", "x-k8s.io/hold": "", "vendor.test": "", ".io/x": "", "example./x": "",
	} {
		if by, known := l.serves(finalizer); by != want || known != (want != "") {
			t.Errorf("%q: %q, %v, want %q", finalizer, by, known, want)
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

// What does not say in name and labels alike that it is a revision is none.
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
	for why, n := range map[string]Namespace{"said nothing": {Finalizers: []string{"kubernetes"}}, "could not be read": {Unread: "forbidden"}} {
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
		{"service a/fails", "webhook fails.test: it has no endpoints: what it would be asked about is refused", `"/webhooks/1/name","value":"fails.test"`},
		{"service a/waits", "webhook waits.test: it is not there: each request that it would be asked about waits for it first", `"/webhooks/2/name","value":"waits.test"`},
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

// Nobody fills the memory with finalizers.
func TestFinalizersAreBounded(t *testing.T) {
	l := New(Config{})
	l.Types([]gc.Type{configMaps}, nil)
	l.Listing(configMaps)
	for i := range 3 * maxNames {
		l.Observe(gc.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: fmt.Sprint(i), UID: fmt.Sprint(i), ResourceVersion: "1", Finalizers: []string{fmt.Sprintf("f%d.test/x", i)}}, time.Time{})
	}
	l.Synced(configMaps)
	if n := len(l.Findings(now)); n != maxNames {
		t.Errorf("%d findings", n)
	}
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
