package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/tools/admission"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

// grants that users are made of.
var grants = []grant{
	{"a", "", "configmaps", nil, "delete"},
	{"a", "", "configmaps", []string{"dependent"}, "delete"},
	{"b", "", "configmaps", nil, "delete"},
	{"a", "*", "*", nil, "delete"},
	{"", "*", "*", nil, "delete"},
	{"a", "apps", "deployments/finalizers", nil, "update"},
	{"", "apps", "deployments/finalizers", nil, "update"},
	{"a", "apps", "deployments/finalizers", []string{"o1", "o2"}, "update"},
	{"a", "apps", "deployments", nil, "*"}, // without the subresource
	{"", "", "nodes/finalizers", nil, "update"},
	{"a", "", "nodes/finalizers", nil, "update"}, // no use: nodes have no namespace
	{"b", "", "pods/finalizers", nil, "update"},
	{"a", "", "*/finalizers", nil, "update"},
	{"a", "example.io", "widgets/finalizers", nil, "update"},
	{"", "example.io", "gadgets/finalizers", nil, "update"},
	{"a", "example.io", "gadgets/finalizers", nil, "update"},
	{"", "example.io", "staff/finalizers", nil, "update"},
	{"", "example.io", "staffs/finalizers", nil, "update"},
	{"", "nowhere.io", "*", nil, "*"},
	{"", "*", "*/finalizers", nil, "update"},
	{"", "*", "*/finalizers", []string{"*"}, "update"}, // passes the check of everything by its letter
	{"", "*", "*", []string{"o1"}, "update"},
	{"a", "*", "*", nil, "*"},
	{"", "*", "*", nil, "*"},
}

// may is what every user may do: write the dependents.
var may = []grant{
	{"", "", "configmaps", nil, "create"}, {"", "", "configmaps", nil, "update"},
	{"", "", "pods", nil, "create"}, {"", "", "pods", nil, "update"}, {"", "", "pods/status", nil, "update"},
	{"", "example.io", "widgets", nil, "create"}, {"", "example.io", "widgets", nil, "update"},
	{"", "example.io", "widgets/status", nil, "update"},
	{"", "scheduling.k8s.io", "priorityclasses", nil, "create"}, {"", "scheduling.k8s.io", "priorityclasses", nil, "update"},
}

// users: one without any grant, one for each grant, and some with several.
func users() [][]grant {
	list := [][]grant{may}
	for _, g := range grants {
		list = append(list, append(slices.Clone(may), g))
	}
	for i := range grants {
		set := slices.Clone(may)
		for j := range 4 {
			set = append(set, grants[(i*(j+1)+j*5)%len(grants)])
		}
		list = append(list, set)
	}
	return list
}

func userName(i int) string { return fmt.Sprintf("user-%d", i) }

// allow makes the roles of all users, and waits until they count.
func (b *fixture) allow(t testing.TB, users [][]grant) {
	t.Helper()
	const api = "/apis/rbac.authorization.k8s.io/v1/"
	for i, grants := range users {
		rules := make(map[string][]object)
		for _, g := range grants {
			rules[g.namespace] = append(rules[g.namespace], object{
				"apiGroups": []string{g.group}, "resources": []string{g.resource}, "verbs": []string{g.verb}, "resourceNames": g.names})
		}
		for namespace, list := range rules {
			base, role := api, "ClusterRole"
			if namespace != "" {
				base, role = api+"namespaces/"+namespace+"/", "Role"
			}
			plural := strings.ToLower(role)
			meta := object{"name": userName(i)}
			b.Must(t, http.MethodPost, base+plural+"s", object{"metadata": meta, "rules": list})
			b.Must(t, http.MethodPost, base+plural+"bindings", object{"metadata": meta,
				"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": userName(i)},
				"subjects": []object{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": userName(i)}}})
		}
	}
	for i, grants := range users {
		for _, g := range grants {
			b.awaitGrant(t, userName(i), g)
		}
	}
}

func (b *fixture) awaitGrant(t testing.TB, user string, g grant) {
	t.Helper()
	resource, sub, _ := strings.Cut(g.resource, "/")
	attributes := object{"group": g.group, "resource": resource, "subresource": sub, "namespace": g.namespace, "verb": g.verb}
	if g.names != nil {
		attributes["name"] = g.names[0]
	}
	await.Holds(t, patience, "rights of "+user, func(ctx context.Context) error {
		var review struct{ Status struct{ Allowed bool } }
		if err := b.Ask(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews",
			object{"spec": object{"user": user, "resourceAttributes": attributes}}, &review); err != nil {
			t.Fatal(err)
		}
		if !review.Status.Allowed {
			return errNotYet
		}
		return nil
	})
}

// furnish makes what the requests of this test are about.
func (b *fixture) furnish(t testing.TB) {
	t.Helper()
	for _, namespace := range []string{"a", "b"} {
		b.Namespace(t, namespace)
	}
	for _, k := range custom {
		scope := "Cluster"
		if k.Namespaced {
			scope = "Namespaced"
		}
		definition := peerstest.Definition(k.Group, k.Kind, k.Resource, scope, "v1")
		definition["spec"].(object)["versions"].([]any)[0].(object)["subresources"] = object{"status": object{}}
		b.Define(t, definition)
	}
}

// refusing waits until the plugin or the policy is at work: until a user without
// rights is refused.
func (b *fixture) refusing(t testing.TB) {
	t.Helper()
	yes := true
	refs := []reference{{"v1", "Node", "o1", "uid-1", &yes}}
	await.Holds(t, patience, "admission to refuse", func(context.Context) error {
		a := b.as(t, userName(0), http.MethodPost, "/api/v1/namespaces/a/configmaps?dryRun=All", dependents[0].object(refs))
		if !a.refused() {
			return fmt.Errorf("%d %s", a.code, a.body)
		}
		return nil
	})
}

// dependent is a type that the users write.
type dependent struct {
	path             string
	group, resource  string
	namespace        string
	sub              string // only updates then
	apiVersion, kind string
	fields           object
}

var pod = object{"spec": object{"containers": []object{{"name": "c", "image": "i"}}}}

var dependents = []dependent{
	{"/api/v1/namespaces/a/configmaps", "", "configmaps", "a", "", "v1", "ConfigMap", nil},
	{"/apis/example.io/v1/namespaces/a/widgets", "example.io", "widgets", "a", "", "example.io/v1", "Widget", nil},
	{"/apis/scheduling.k8s.io/v1/priorityclasses", "scheduling.k8s.io", "priorityclasses", "", "", "scheduling.k8s.io/v1", "PriorityClass", object{"value": 5}},
	{"/api/v1/namespaces/a/pods", "", "pods", "a", "", "v1", "Pod", pod},
	{"/api/v1/namespaces/a/pods", "", "pods", "a", "status", "v1", "Pod", pod},
	{"/apis/example.io/v1/namespaces/a/widgets", "example.io", "widgets", "a", "status", "example.io/v1", "Widget", nil},
}

func (d dependent) object(refs []reference) object {
	o := object{"apiVersion": d.apiVersion, "kind": d.kind, "metadata": object{"name": "dependent", "ownerReferences": refs}}
	for k, v := range d.fields {
		o[k] = v
	}
	return o
}

// ownerKinds that references are drawn from.
var ownerKinds = [][2]string{
	{"apps/v1", "Deployment"}, {"apps/v1", "Deployment"}, {"apps/v9", "Deployment"}, {"apps/v1", "deployment"},
	{"v1", "Pod"}, {"v1", "Node"}, {"v1", "node"}, {"example.io/v1", "Widget"}, {"example.io/v1", "Gadget"},
	{"example.io/v1", "Staff"}, {"nowhere.io/v1", "Thing"},
}

func drawReference(t *rapid.T, uids int) reference {
	kind := rapid.SampledFrom(ownerKinds).Draw(t, "kind")
	n := rapid.IntRange(1, uids).Draw(t, "owner")
	r := reference{APIVersion: kind[0], Kind: kind[1], Name: fmt.Sprint("o", n), UID: fmt.Sprint("uid-", n)}
	if b := rapid.IntRange(0, 3).Draw(t, "block"); b > 0 {
		blocks := b > 1
		r.Block = &blocks
	}
	return r
}

func drawReferences(t *rapid.T, label string) (refs []reference) {
	n := rapid.SampledFrom([]int{0, 1, 1, 1, 2, 2, 3, 24, 26}).Draw(t, label)
	seen := make(map[string]bool)
	for range n {
		r := drawReference(t, max(4, 2*n))
		// Seldom a UID twice.
		if !seen[r.UID] || rapid.IntRange(0, 9).Draw(t, "twice") == 0 {
			refs = append(refs, r)
		}
		seen[r.UID] = true
	}
	return refs
}

// drawNow changes what was, or makes something else of it.
func drawNow(t *rapid.T, old []reference) []reference {
	now := slices.Clone(old)
	if len(now) == 0 || rapid.IntRange(0, 3).Draw(t, "new") == 0 {
		return drawReferences(t, "now")
	}
	i := rapid.IntRange(0, len(now)-1).Draw(t, "which")
	switch rapid.IntRange(0, 4).Draw(t, "change") {
	case 0:
		return slices.Delete(now, i, i+1)
	case 1:
		return append(now, drawReference(t, 60))
	case 2:
		blocks := !now[i].blocks()
		now[i].Block = &blocks
	case 3:
		slices.Reverse(now)
	}
	return now
}

func distinct(refs []reference) (list []reference) {
	for _, r := range refs {
		if !slices.ContainsFunc(list, func(o reference) bool { return sameReference(o, r) }) {
			list = append(list, r)
		}
	}
	return list
}

// TestPolicyIsThePlugin compares the policy with the plugin itself, on two API
// servers, and both with their model.
func TestPolicyIsThePlugin(t *testing.T) {
	withPlugin := start(t, peers.Config{APIServerArgs: []string{"--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement"}})
	withPolicy := start(t, peers.Config{})
	withPolicy.ApplyFiles(t, "admission/policy.yaml", "admission/deny.yaml")
	everybody := users()
	for _, b := range []*fixture{withPlugin, withPolicy} {
		b.furnish(t)
		b.allow(t, everybody)
		b.refusing(t)
	}
	met := make(map[string]int)
	rapid.Check(t, func(rt *rapid.T) {
		user := rapid.IntRange(0, len(everybody)-1).Draw(rt, "user")
		d := rapid.SampledFrom(dependents).Draw(rt, "dependent")
		w := write{grants: everybody[user], group: d.group, resource: d.resource, sub: d.sub, namespace: d.namespace, name: "dependent",
			isStatus: d.resource == "pods" && d.sub == "status"}
		w.update = d.sub != "" || rapid.Bool().Draw(rt, "update")
		if w.update {
			w.old = drawReferences(rt, "old")
			w.now = drawNow(rt, w.old)
		} else {
			w.now = drawReferences(rt, "now")
		}
		byPlugin, pluginAnswer := withPlugin.try(t, userName(user), d, w)
		byPolicy, policyAnswer := withPolicy.try(t, userName(user), d, w)
		// The API server drops what is there twice, word for word, before it asks.
		asked := w
		asked.old, asked.now = distinct(w.old), distinct(w.now)
		if d.sub == "status" {
			asked.now = asked.old // a write of the status changes no metadata
		}
		why := knownToDiffer(asked)
		met[fmt.Sprintf("refused=%v %s", byPlugin, why)]++
		if byPlugin != plugin.refuses(asked) {
			rt.Fatalf("the plugin's model is wrong: refused %v: %s\n%+v", byPlugin, pluginAnswer, w)
		}
		if byPolicy != policy.refuses(asked) {
			rt.Fatalf("the policy's model is wrong: refused %v: %s\n%+v", byPolicy, policyAnswer, w)
		}
		if byPlugin != byPolicy && why == "" {
			rt.Fatalf("plugin refuses: %v, policy: %v\n%s\n%s\n%+v", byPlugin, byPolicy, pluginAnswer, policyAnswer, w)
		}
	})
	t.Logf("decisions: %v", met)
	// What is drawn decides how many there are: about 12 and 40.
	if met["refused=true "] == 0 || met["refused=false "] == 0 {
		t.Errorf("only one of both decisions: nothing was compared")
	}
}

// try sends a write of a user, and returns whether it was refused, and the body of the answer.
func (b *fixture) try(t *testing.T, user string, d dependent, w write) (refused bool, body string) {
	t.Helper()
	if !w.update {
		a := b.as(t, user, http.MethodPost, d.path+"?dryRun=All", d.object(w.now))
		return b.verdict(t, a)
	}
	b.Must(t, http.MethodPost, d.path, d.object(w.old))
	defer b.Must(t, http.MethodDelete, d.path+"/dependent?gracePeriodSeconds=0", nil)
	path := d.path + "/dependent"
	if d.sub != "" {
		path += "/" + d.sub
	}
	var current object
	b.Read(t, d.path+"/dependent", &current)
	current["metadata"].(object)["ownerReferences"] = w.now
	return b.verdict(t, b.as(t, user, http.MethodPut, path+"?dryRun=All", current))
}

func (b *fixture) verdict(t *testing.T, a answer) (bool, string) {
	t.Helper()
	if a.code/100 != 2 && !a.refused() {
		t.Fatalf("neither admitted nor refused: %d %s", a.code, a.body)
	}
	// Refused by nothing else: every user may write every dependent.
	if a.refused() && !strings.Contains(string(a.body), admission.Name) && !strings.Contains(string(a.body), "cannot set") {
		t.Fatalf("refused by another: %s", a.body)
	}
	return a.refused(), string(a.body)
}
