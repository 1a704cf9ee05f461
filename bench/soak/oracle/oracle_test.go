package oracle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// world feeds an oracle in few words.
type world = *story

type story struct {
	t      *testing.T
	oracle *Oracle
	rev    int64
	now    time.Time
	there  map[string]*Object // by name
}

func newWorld(t *testing.T) world {
	w := &story{t: t, rev: 10, now: time.Unix(1e9, 0), there: map[string]*Object{}}
	w.oracle = New(Config{
		Kinds: map[Kind]bool{{"v1", "ConfigMap"}: true, {"v1", "Secret"}: true, {"example.com/v1", "Widget"}: true,
			{"example.com/v2", "Widget"}: true, {"rbac.authorization.k8s.io/v1", "ClusterRole"}: false, {"v1", "Namespace"}: false},
		Judged: func(x *Object) bool { return x.Kind != "Namespace" && x.Namespace != "kube-system" },
		Race:   30 * time.Second,
		Unseen: func(written, now time.Time) bool { return now.Sub(written) < 10*time.Second },
	})
	w.put("ns/space", "")
	return w
}

func (w world) pass(d time.Duration) { w.now = w.now.Add(d) }

var apis = map[string][2]string{"cm": {"v1", "ConfigMap"}, "secret": {"v1", "Secret"}, "widget": {"example.com/v1", "Widget"},
	"widget2": {"example.com/v2", "Widget"}, "widget9": {"example.com/v9", "Widget"}, "class": {"rbac.authorization.k8s.io/v1", "ClusterRole"}, "ns": {"v1", "Namespace"}}

// put "cm/a < cm/o !cm/p + finalizer … terminating": what it owns comes from the line.
func (w world) put(what, rest string) *Object {
	w.t.Helper()
	kind, name, _ := strings.Cut(what, "/")
	x := &Object{Key: "/registry/" + what, APIVersion: apis[kind][0], Kind: apis[kind][1], Name: name, Namespace: "space", UID: "uid-" + what}
	if kind == "class" || kind == "ns" {
		x.Namespace = ""
	}
	list := ""
	for _, f := range strings.Fields(rest) {
		switch {
		case f == "<" || f == "+":
			list = f
		case f == "terminating":
			x.Terminating = true
		case strings.HasPrefix(f, "mark="):
			x.Mark = f
		case list == "<":
			owner, uid, found := strings.Cut(strings.TrimPrefix(f, "!"), "=")
			k, n, _ := strings.Cut(owner, "/")
			if !found {
				uid = "uid-" + owner
			}
			x.Owners = append(x.Owners, Owner{APIVersion: apis[k][0], Kind: apis[k][1], Name: n, UID: uid, Block: f[0] == '!'})
		default:
			x.Finalizers = append(x.Finalizers, f)
		}
	}
	w.rev++
	w.oracle.Put(w.rev, w.now, x)
	w.there[what] = x
	return x
}

func (w world) end(what string) {
	w.rev++
	w.oracle.Delete(w.rev, w.now, "/registry/"+what)
	delete(w.there, what)
}

// client deletes, with a policy.
func (w world) client(what, policy string) { w.oracle.Deleting("uid-"+what, policy) }

func (w world) restore(names ...string) {
	w.rev -= 5
	var all []*Object
	for _, n := range names {
		all = append(all, w.there[n])
	}
	w.oracle.Restore(w.rev, w.now, all)
}

// Each kind of violation is found, and what is next to it and right is none.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(world)
		want string
	}{
		{"an owner lives", func(w world) { w.put("cm/o", ""); w.put("cm/a", "< cm/o"); w.end("cm/a") }, LivingOwner},
		{"one of two lives", func(w world) {
			w.put("cm/o", "")
			w.put("cm/p", "")
			w.put("cm/a", "< cm/o cm/p")
			w.client("cm/o", "Background")
			w.end("cm/o")
			w.end("cm/a")
		}, LivingOwner},
		{"its finalizers hold it", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o + "+Hold+"x")
			w.put("cm/a", "< cm/o + "+Hold+"x terminating")
		}, LivingOwner},
		{"the owner lives in another version", func(w world) { w.put("widget/o", ""); w.put("cm/a", "< widget2/o=uid-widget/o"); w.end("cm/a") }, LivingOwner},
		{"the owner is being deleted, and stays", func(w world) {
			w.put("cm/o", "+ "+Hold+"x")
			w.put("cm/a", "< cm/o")
			w.client("cm/o", "Background")
			w.put("cm/o", "+ "+Hold+"x terminating")
			w.end("cm/a")
		}, LivingOwner},
		{"the owner is being orphaned", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.end("cm/a")
		}, LivingOwner},
		{"the owner is gone", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.client("cm/o", "Background")
			w.end("cm/o")
			w.end("cm/a")
		}, ""},
		{"the owner is another", func(w world) { w.put("cm/o", ""); w.put("cm/a", "< cm/o=former"); w.end("cm/a") }, ""},
		{"the owner waits", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< !cm/o")
			w.client("cm/o", "Foreground")
			w.put("cm/o", "+ foregroundDeletion terminating")
			w.end("cm/a")
			w.end("cm/o")
		}, ""},
		{"the owner waited a moment ago", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.client("cm/o", "Foreground")
			w.put("cm/o", "+ foregroundDeletion terminating")
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.end("cm/a")
		}, ""},
		{"the owner waited long ago", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.client("cm/o", "Foreground")
			w.put("cm/o", "+ foregroundDeletion terminating")
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.pass(time.Minute)
			w.end("cm/a")
		}, LivingOwner},
		{"a client deletes", func(w world) { w.put("cm/o", ""); w.put("cm/a", "< cm/o"); w.client("cm/a", ""); w.end("cm/a") }, ""},
		{"a client was refused", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.client("cm/a", "")
			w.oracle.Refused("uid-cm/a")
			w.end("cm/a")
		}, LivingOwner},
		{"the namespace goes", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.put("ns/space", "terminating")
			w.end("cm/a")
		}, ""},
		{"no owner", func(w world) { w.put("cm/a", ""); w.end("cm/a") }, NoOwner},
		{"a version that nobody serves", func(w world) { w.put("cm/a", "< widget9/o"); w.end("cm/a") }, UnknownOwner},
		{"such a version, and its UID is gone", func(w world) {
			w.put("widget/o", "")
			w.put("cm/a", "< widget9/o=uid-widget/o")
			w.client("widget/o", "Background")
			w.end("widget/o")
			w.end("cm/a")
		}, ""},
		{"a cluster-scoped dependent", func(w world) { w.put("class/a", "< cm/o"); w.end("class/a") }, NeverCollected},
		{"orphaned", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.end("cm/o")
			w.pass(time.Hour)
			w.end("cm/a")
		}, OrphanDeleted},
		{"orphaned before it was made", func(w world) {
			w.put("cm/o", "")
			w.client("cm/o", "")
			w.put("cm/o", "+ orphan terminating")
			w.end("cm/o")
			w.put("cm/a", "< cm/o")
			w.end("cm/a")
		}, OrphanDeleted},
		{"orphaned by one, and another is gone", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o cm/p")
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.end("cm/o")
			w.end("cm/a")
		}, ""},
		{"orphaned, and then deleted otherwise", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.client("cm/o", "Background")
			w.end("cm/o")
			w.end("cm/a")
		}, ""},
		{"orphaned, with a second attempt", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.client("cm/o", "Orphan")
			w.end("cm/o")
			w.end("cm/a")
		}, OrphanDeleted},
		{"foreground order", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< !cm/o")
			w.pass(time.Minute)
			w.client("cm/o", "Foreground")
			w.put("cm/o", "+ foregroundDeletion terminating")
			w.end("cm/o")
		}, ForegroundOrder},
		{"foreground order, held by others", func(w world) {
			w.put("cm/o", "+ "+Hold+"x")
			w.put("cm/a", "< !cm/o + "+Hold+"x")
			w.pass(time.Minute)
			w.put("cm/a", "< !cm/o terminating + "+Hold+"x")
			w.client("cm/o", "Foreground")
			w.put("cm/o", "+ foregroundDeletion "+Hold+"x terminating")
			w.put("cm/o", "+ "+Hold+"x terminating")
		}, LivingOwner + ForegroundOrder},
		{"foreground, blocked a moment ago", func(w world) {
			w.put("cm/o", "")
			w.client("cm/o", "Foreground")
			w.put("cm/o", "+ foregroundDeletion terminating")
			w.put("cm/a", "< !cm/o")
			w.end("cm/o")
		}, ""},
		{"foreground, not blocked", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.pass(time.Minute)
			w.client("cm/o", "Foreground")
			w.put("cm/o", "+ foregroundDeletion terminating")
			w.end("cm/o")
		}, ""},
		{"foreground, and then deleted otherwise", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< !cm/o")
			w.pass(time.Minute)
			w.client("cm/o", "Foreground")
			w.put("cm/o", "+ foregroundDeletion terminating")
			w.client("cm/o", "Background")
			w.end("cm/o")
		}, ""},
		{"a reference is taken", func(w world) { w.put("cm/o", ""); w.put("cm/a", "< cm/o"); w.put("cm/a", "") }, ReferenceTaken},
		{"a client takes a reference", func(w world) { w.put("cm/o", ""); w.put("cm/a", "< cm/o"); w.put("cm/a", "mark=1") }, ""},
		{"a reference to what is gone is taken", func(w world) { w.put("cm/a", "< cm/o"); w.put("cm/a", "") }, ""},
		{"unblocked", func(w world) { w.put("cm/o", ""); w.put("cm/a", "< !cm/o"); w.put("cm/a", "< cm/o") }, ""},
		{"a finalizer is taken", func(w world) { w.put("cm/a", "+ "+Hold+"x"); w.put("cm/a", "") }, FinalizerTaken},
		{"the last finalizer is taken", func(w world) {
			w.put("cm/a", "+ "+Hold+"x")
			w.client("cm/a", "")
			w.put("cm/a", "+ "+Hold+"x terminating")
			w.end("cm/a")
		}, FinalizerTaken},
		{"a client takes a finalizer", func(w world) {
			w.put("cm/a", "+ "+Hold+"x")
			w.client("cm/a", "")
			w.put("cm/a", "+ "+Hold+"x terminating")
			w.oracle.Lifting("uid-cm/a")
			w.end("cm/a")
		}, ""},
		{"restored: its owner lives again", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			o := w.there["cm/o"]
			w.client("cm/o", "Background")
			w.end("cm/o")
			w.there["cm/o"] = o
			w.restore("ns/space", "cm/o", "cm/a")
			w.end("cm/a")
		}, LivingOwner},
		{"restored: what a client deleted lives again", func(w world) {
			a := w.put("cm/a", "")
			w.client("cm/a", "")
			w.end("cm/a")
			w.there["cm/a"] = a
			w.restore("ns/space", "cm/a")
			w.end("cm/a")
		}, NoOwner},
		{"restored: orphaned in what was lost", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			o := w.there["cm/o"]
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.end("cm/o")
			w.there["cm/o"] = o
			w.restore("ns/space", "cm/o", "cm/a")
			w.client("cm/o", "Background")
			w.end("cm/o")
			w.end("cm/a")
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.do(w)
			got := ""
			for _, v := range w.oracle.Violations() {
				got += v.Kind
				if report := w.oracle.Report(v); !strings.Contains(report, v.UID) || !strings.Contains(report, "revision") {
					t.Errorf("the report says nothing: %s", report)
				}
			}
			if got != c.want {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

// What is left to do is found, and nothing else.
func TestOutstanding(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(world)
		want []string
	}{
		{"nothing", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.put("cm/b", "")
			w.put("cm/c", "< widget9/x")
			w.put("class/d", "< cm/x")
		}, nil},
		{"an owner is gone", func(w world) { w.put("cm/a", "< cm/o") }, []string{"delete"}},
		{"one of two is gone", func(w world) { w.put("cm/p", ""); w.put("cm/a", "< cm/o cm/p") }, []string{"tidy"}},
		{"it is being deleted", func(w world) { w.put("cm/a", "< cm/o + "+Hold+"x terminating") }, nil},
		{"to be orphaned", func(w world) {
			w.put("cm/o", "")
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.put("cm/a", "< cm/o")
		}, []string{"tidy", "orphan"}},
		{"orphaned, with the reference still there", func(w world) {
			w.put("cm/o", "")
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.put("cm/a", "< cm/o")
			w.end("cm/o")
		}, []string{"tidy"}},
		{"to be finalized", func(w world) {
			w.put("cm/o", "")
			w.client("cm/o", "Foreground")
			w.put("cm/o", "+ foregroundDeletion terminating")
			w.put("cm/a", "< !cm/o")
		}, []string{"delete", "finalize"}},
		{"a namespace", func(w world) { w.put("ns/space", "terminating"); w.put("cm/a", "< cm/o") }, []string{"empty"}},
		{"lost by a restore", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.restore("ns/space", "cm/a")
		}, []string{"delete"}},
		{"orphaned, and lost by a restore", func(w world) {
			w.put("cm/o", "")
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.put("cm/a", "< cm/o")
			w.restore("ns/space", "cm/a")
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.do(w)
			var got []string
			for _, d := range w.oracle.Outstanding() {
				got = append(got, d.What)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("found %v, want %v", got, c.want)
			}
			if v := w.oracle.Violations(); len(v) > 0 {
				t.Error(fmt.Sprint(v))
			}
		})
	}
}

func TestDecode(t *testing.T) {
	x, err := Decode("/registry/k", []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"n","namespace":"s","uid":"u","deletionTimestamp":"2020-01-01T00:00:00Z",
		"finalizers":["orphan"],"annotations":{"soak.example.com/op":"7"},"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"o","uid":"v","blockOwnerDeletion":true}]}}`))
	if err != nil || !x.orphaning() || x.Mark != "7" || x.UID != "u" || x.Owners[0] != (Owner{"v1", "Pod", "o", "v", true}) {
		t.Errorf("%+v, %v", x, err)
	}
	if _, err := Decode("/registry/k", []byte("k8s\x00")); err == nil {
		t.Error("protobuf passes for JSON")
	}
}
