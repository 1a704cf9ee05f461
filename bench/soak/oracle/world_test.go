package oracle

import (
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
		Unseen: func(_ *Object, written, now time.Time) bool { return now.Sub(written) < 10*time.Second },
	})
	w.put("ns/space", "")
	return w
}

func (w world) pass(d time.Duration) { w.now = w.now.Add(d) }

var apis = map[string][2]string{"cm": {"v1", "ConfigMap"}, "secret": {"v1", "Secret"}, "widget": {"example.com/v1", "Widget"},
	"widget2": {"example.com/v2", "Widget"}, "widget9": {"example.com/v9", "Widget"}, "class": {"rbac.authorization.k8s.io/v1", "ClusterRole"}, "ns": {"v1", "Namespace"}}

// put "cm/a < cm/o !cm/p + finalizer … terminating": what it owns comes from the line.
func (w world) put(what, rest string) *Object {
	x := parse(what, rest)
	w.rev++
	w.oracle.Put(w.rev, w.now, x)
	w.there[what] = x
	return x
}

// outside is a change in another API server.
func (w world) outside(what, rest string) func() {
	return w.oracle.Outside(w.now, parse(what, rest), rest == "gone")
}

func parse(what, rest string) *Object {
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
