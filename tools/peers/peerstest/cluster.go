package peerstest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/process"
)

// Object is any object of the API, or a part of one.
type Object = map[string]any

// patience bounds waits for the API server's own work.
const patience = 3 * time.Minute

// Cluster is a control plane with short methods that act as an admin, for tests.
type Cluster struct {
	*peers.ControlPlane
	Admin *http.Client
	Via   string // URL of the API server to use; "" is the first
}

// Start starts a cluster with StartControlPlane.
func Start(t testing.TB, c peers.Config) *Cluster {
	t.Helper()
	cp := StartControlPlane(t, c)
	admin, err := cp.Admin()
	if err != nil {
		t.Fatal(err)
	}
	return &Cluster{ControlPlane: cp, Admin: admin}
}

// AdminKubeconfig returns a kubeconfig file with all rights.
func (c *Cluster) AdminKubeconfig(t testing.TB) string {
	t.Helper()
	file, err := c.Kubeconfig("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// ApplyFiles applies files below deploy/ as "kubectl apply --server-side" does.
func (c *Cluster) ApplyFiles(t testing.TB, files ...string) {
	t.Helper()
	for _, file := range files {
		path, err := process.Find(filepath.Join("deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Apply(t.Context(), path); err != nil {
			t.Fatal(err)
		}
	}
}

// Ask is peers.Request as the admin.
func (c *Cluster) Ask(ctx context.Context, method, path string, in, out any) error {
	return peers.Request(ctx, c.Admin, method, cmp.Or(c.Via, c.URL())+path, in, out)
}

// Must sends a request that must succeed, and returns the object's UID.
func (c *Cluster) Must(t testing.TB, method, path string, in any) (uid string) {
	t.Helper()
	var out struct{ Metadata Meta }
	if err := c.Ask(t.Context(), method, path, in, &out); err != nil {
		t.Fatal(err)
	}
	return out.Metadata.UID
}

// Read reads an object that must exist.
func (c *Cluster) Read(t testing.TB, path string, out any) {
	t.Helper()
	if err := c.Ask(t.Context(), http.MethodGet, path, nil, out); err != nil {
		t.Fatal(err)
	}
}

// Namespace creates a namespace.
func (c *Cluster) Namespace(t testing.TB, name string) {
	t.Helper()
	c.Must(t, http.MethodPost, "/api/v1/namespaces", Object{"metadata": Object{"name": name}})
}

// User returns a subject for Allow.
func User(name string) Object { return Object{"kind": "User", "name": name} }

// Allow creates a ClusterRole of that name and binds it to a subject.
func (c *Cluster) Allow(t testing.TB, role string, subject Object, rules ...Object) {
	t.Helper()
	const api = "/apis/rbac.authorization.k8s.io/v1/"
	meta := Object{"name": role}
	c.Must(t, http.MethodPost, api+"clusterroles", Object{"metadata": meta, "rules": rules})
	c.Must(t, http.MethodPost, api+"clusterrolebindings", Object{"metadata": meta, "subjects": []Object{subject},
		"roleRef": Object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}})
}

// Meta is the metadata that tests read.
type Meta struct {
	UID               string
	ResourceVersion   string
	DeletionTimestamp string
	Finalizers        []string
	OwnerReferences   []Reference
}

// Reference is an owner reference.
type Reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Block      bool   `json:"blockOwnerDeletion"`
}

// Get reads an object, or returns nil if it does not exist.
func (c *Cluster) Get(ctx context.Context, path string) (*Meta, error) {
	var out struct{ Metadata Meta }
	err := c.Ask(ctx, http.MethodGet, path, nil, &out)
	if peers.HasStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	return &out.Metadata, err
}

// AwaitGone waits until an object does not exist.
func (c *Cluster) AwaitGone(t testing.TB, path string) {
	t.Helper()
	await.Holds(t, patience, path+" to go", func(ctx context.Context) error {
		m, err := c.Get(ctx, path)
		if m != nil && err == nil {
			err = fmt.Errorf("it is there: %+v", *m)
		}
		return err
	})
}

// Compact compacts etcd to the newest revision.
func (c *Cluster) Compact(t testing.TB) {
	t.Helper()
	etcd := peers.UnixClient(c.EtcdSocket())
	var state struct{ Header struct{ Revision string } }
	err := peers.Request(t.Context(), etcd, http.MethodPost, "http://etcd/v3/kv/range", Object{"key": "YQ=="}, &state)
	if err == nil {
		err = peers.Request(t.Context(), etcd, http.MethodPost, "http://etcd/v3/kv/compaction",
			Object{"revision": state.Header.Revision, "physical": true}, nil)
	}
	if err != nil {
		t.Error(err)
	}
}

// Definitions is the API path of custom resource definitions.
const Definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// Definition returns the definition of a custom type, of scope "Namespaced" or "Cluster".
// The first version is stored; versions with the suffix ! are not served.
func Definition(group, kind, plural, scope string, versions ...string) Object {
	var list []any
	for i, v := range versions {
		name, unserved := strings.CutSuffix(v, "!")
		list = append(list, Object{"name": name, "served": !unserved, "storage": i == 0, "schema": Object{
			"openAPIV3Schema": Object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
	}
	return Object{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": Object{"name": plural + "." + group},
		"spec": Object{"group": group, "scope": scope, "versions": list,
			"names": Object{"plural": plural, "singular": strings.ToLower(kind), "kind": kind, "listKind": kind + "List"}}}
}

// Define creates or updates a custom type, and waits until it is served.
func (c *Cluster) Define(t testing.TB, definition Object) {
	t.Helper()
	meta, spec := definition["metadata"].(Object), definition["spec"].(Object)
	path := fmt.Sprint(Definitions, "/", meta["name"])
	m, err := c.Get(t.Context(), path)
	switch {
	case err != nil:
		t.Fatal(err)
	case m != nil:
		meta["resourceVersion"] = m.ResourceVersion
		c.Must(t, http.MethodPut, path, definition)
	default:
		c.Must(t, http.MethodPost, Definitions, definition)
	}
	for _, v := range spec["versions"].([]any) {
		if v := v.(Object); v["served"] == true {
			path := fmt.Sprintf("/apis/%s/%s/%s", spec["group"], v["name"], spec["names"].(Object)["plural"])
			await.Holds(t, patience, path, func(ctx context.Context) error { return c.Ask(ctx, http.MethodGet, path, nil, nil) })
		}
	}
}
