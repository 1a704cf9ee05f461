package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

// kinds of objects in scenarios.
var kinds = map[string]struct {
	apiVersion, kind, resource string
	cluster                    bool
	spec                       object
}{
	"cm":     {apiVersion: "v1", kind: "ConfigMap", resource: "configmaps"},
	"secret": {apiVersion: "v1", kind: "Secret", resource: "secrets"},
	"pod":    {apiVersion: "v1", kind: "Pod", resource: "pods", spec: podSpec},
	"rs":     {apiVersion: "apps/v1", kind: "ReplicaSet", resource: "replicasets", spec: workload},
	"job":    {apiVersion: "batch/v1", kind: "Job", resource: "jobs", spec: object{"template": object{"spec": object{"containers": podSpec["containers"], "restartPolicy": "Never"}}}},
	"deploy": {apiVersion: "apps/v1", kind: "Deployment", resource: "deployments", spec: workload},
	"widget": {apiVersion: "example.com/v1", kind: "Widget", resource: "widgets"},
	"class":  {apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole", resource: "clusterroles", cluster: true},
}

var podSpec = object{"containers": []any{object{"name": "c", "image": "i"}}}

var workload = object{
	"selector": object{"matchLabels": object{"a": "b"}},
	"template": object{"metadata": object{"labels": object{"a": "b"}}, "spec": podSpec},
}

// scenario is a namespace, and objects in it by name.
type scenario struct {
	*fixture
	t         *testing.T
	namespace string
	uids      map[string]string
}

func (b *fixture) scenario(t *testing.T) *scenario {
	t.Helper()
	b.spaces++
	s := &scenario{fixture: b, t: t, namespace: fmt.Sprintf("scenario-%d", b.spaces), uids: map[string]string{}}
	b.Must(t, http.MethodPost, "/api/v1/namespaces", object{"metadata": object{"name": s.namespace}})
	return s
}

// path of "cm/name"; of "cm/" that of all.
func (s *scenario) path(what string) string {
	kind, name, _ := strings.Cut(what, "/")
	k := kinds[kind]
	prefix := "/apis/" + k.apiVersion
	if !strings.Contains(k.apiVersion, "/") {
		prefix = "/api/" + k.apiVersion
	}
	if !k.cluster {
		prefix += "/namespaces/" + s.namespace
	}
	if name == "" {
		return prefix + "/" + k.resource
	}
	return prefix + "/" + k.resource + "/" + s.real(kind, name)
}

// real is a name as it is in the cluster.
func (s *scenario) real(kind, name string) string {
	if kinds[kind].cluster {
		return s.namespace + "-" + name
	}
	return name
}

// reference to an object that was made: "cm/a", or "!cm/a" with blockOwnerDeletion.
func (s *scenario) reference(what string) object {
	block := strings.HasPrefix(what, "!")
	what = strings.TrimPrefix(what, "!")
	kind, name, _ := strings.Cut(what, "/")
	uid, ok := s.uids[what]
	if !ok {
		uid = "00000000-0000-4000-8000-00000000dead"
	}
	return object{"apiVersion": kinds[kind].apiVersion, "kind": kinds[kind].kind, "name": s.real(kind, name), "uid": uid, "blockOwnerDeletion": block}
}

// make objects from lines such as "cm/a < !cm/b cm/c + example.com/finalizer":
// owners behind "<", finalizers behind "+".
func (s *scenario) make(lines ...string) {
	s.t.Helper()
	for _, line := range lines {
		s.uids[strings.Fields(line)[0]] = s.create(s.t.Context(), line)
	}
}

func (s *scenario) create(ctx context.Context, line string) string {
	s.t.Helper()
	words := strings.Fields(line)
	kind, name, _ := strings.Cut(words[0], "/")
	m := object{"name": s.real(kind, name)}
	var owners, finalizers []any
	list := &owners
	for _, w := range words[1:] {
		switch w {
		case "<":
		case "+":
			list = &finalizers
		default:
			if list == &owners {
				owners = append(owners, s.reference(w))
			} else {
				finalizers = append(finalizers, w)
			}
		}
	}
	m["ownerReferences"], m["finalizers"] = owners, finalizers
	o := object{"apiVersion": kinds[kind].apiVersion, "kind": kinds[kind].kind, "metadata": m}
	if spec := kinds[kind].spec; spec != nil {
		o["spec"] = spec
	}
	var out struct{ Metadata struct{ UID string } }
	if err := s.Ask(ctx, http.MethodPost, s.path(kind+"/"), o, &out); err != nil {
		s.t.Fatal(err)
	}
	return out.Metadata.UID
}

// many dependents of one owner, in few words.
func (s *scenario) many(kind, owner string, n int) {
	s.t.Helper()
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("%s/%s-%d < !%s", kind, strings.ReplaceAll(owner, "/", "-"), i, owner)
	}
	s.make(lines...)
}

// remove an object: "cm/a", and the options as the client sends them.
func (s *scenario) remove(what string, options any) {
	s.t.Helper()
	if err := s.Ask(s.t.Context(), http.MethodDelete, s.path(what), options, nil); err != nil {
		s.t.Fatal(err)
	}
}

func policy(p string) object {
	return object{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": p}
}

// left counts the objects of a kind, and those of them that have owners.
func (s *scenario) left(ctx context.Context, kind string) (all, owned int, err error) {
	var list struct {
		Items []struct{ Metadata peerstest.Meta }
	}
	err = s.Ask(ctx, http.MethodGet, s.path(kind+"/"), nil, &list)
	for _, o := range list.Items {
		if len(o.Metadata.OwnerReferences) > 0 {
			owned++
		}
	}
	return len(list.Items), owned, err
}

// awaitLeft waits until so many of a kind are left, and so many of them owned.
func (s *scenario) awaitLeft(kind string, all, owned int) {
	s.t.Helper()
	await.Holds(s.t, patience, fmt.Sprintf("%d of %s, %d of them owned", all, kind, owned), func(ctx context.Context) error {
		a, o, err := s.left(ctx, kind)
		if err == nil && (a != all || o != owned) {
			err = fmt.Errorf("%d, %d owned", a, o)
		}
		return err
	})
}

// atRest returns how many of a kind are left once none went for half a second: no event
// marks that nothing more comes.
func (s *scenario) atRest(kind string) (all int) {
	s.t.Helper()
	await.Holds(s.t, patience, "no more "+kind+" to go", func(ctx context.Context) (err error) {
		if all, _, err = s.left(ctx, kind); err != nil {
			return err
		}
		time.Sleep(500 * time.Millisecond)
		again, _, err := s.left(ctx, kind)
		if err == nil && again != all {
			err = fmt.Errorf("%d, then %d", all, again)
		}
		return err
	})
	return all
}

// want checks how the scenario is in the end: "-cm/a" is gone, "cm/a" is there, and
// "cm/a=2" has so many owners, "cm/a!" is being deleted.
func (s *scenario) want(ends ...string) {
	s.t.Helper()
	for _, end := range ends {
		if what, gone := strings.CutPrefix(end, "-"); gone {
			s.AwaitGone(s.t, s.path(what))
			continue
		}
		what, owners, counted := strings.Cut(end, "=")
		what, deleted := strings.CutSuffix(what, "!")
		await.Holds(s.t, patience, end, func(ctx context.Context) error {
			m, err := s.Get(ctx, s.path(what))
			switch {
			case err != nil:
				return err
			case m == nil:
				s.t.Fatalf("%s is gone", what)
			case m.UID != s.uids[what]:
				s.t.Fatalf("%s is another", what)
			case (m.DeletionTimestamp != "") != deleted:
				return fmt.Errorf("deleted at %q", m.DeletionTimestamp)
			case counted && fmt.Sprint(len(m.OwnerReferences)) != owners:
				return fmt.Errorf("owners %v", m.OwnerReferences)
			}
			return nil
		})
	}
}

func widgets(versions ...string) object {
	return peerstest.Definition("example.com", "Widget", "widgets", "Namespaced", versions...)
}

// define the custom resource Widget, in versions.
func (b *fixture) define(t *testing.T, versions ...string) {
	t.Helper()
	b.Define(t, widgets(versions...))
}
