package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ebb-agent/ebb/agent/preview"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object = map[string]any

// bed is a control plane whose only controller is the collector.
type bed struct {
	cp         *peers.ControlPlane
	admin      *http.Client
	kubeconfig string
}

func start(t *testing.T) *bed {
	t.Helper()
	cp := peerstest.StartControlPlane(t, peers.Config{ControllerManager: true,
		ControllerManagerArgs: []string{"--controllers=garbage-collector-controller,serviceaccount-controller", "--kube-api-qps=1000", "--kube-api-burst=1000"}})
	admin, err := cp.Admin()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := cp.Kubeconfig("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{cp, admin, kubeconfig}
	b.serve(t, "Widget", "widgets", "Namespaced")
	b.serve(t, "Realm", "realms", "Cluster")
	return b
}

// serve makes a custom type.
func (b *bed) serve(t *testing.T, kind, plural, scope string) {
	t.Helper()
	b.do(t, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", object{
		"metadata": object{"name": plural + ".example.io"},
		"spec": object{"group": "example.io", "scope": scope, "names": object{"kind": kind, "plural": plural, "shortNames": []string{plural[:2]}},
			"versions": []object{{"name": "v1", "served": true, "storage": true,
				"schema": object{"openAPIV3Schema": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}, nil)
	await(t, kind+" to be served", func() error {
		return peers.Request(t.Context(), b.admin, http.MethodGet, b.cp.URL()+"/apis/example.io/v1/"+plural, nil, nil)
	})
}

func (b *bed) do(t *testing.T, method, path string, in, out any) {
	t.Helper()
	if err := peers.Request(t.Context(), b.admin, method, b.cp.URL()+path, in, out); err != nil {
		t.Fatal(err)
	}
}

// thing is an object of this test.
type thing struct {
	path, apiVersion, kind string
	namespace, name        string
	UID                    string
	owners                 []reference
	Finalizers             []string
	terminating            bool
}

type reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Block      bool   `json:"blockOwnerDeletion"`
}

var types = map[string]struct{ apiVersion, path string }{
	"ConfigMap": {"v1", "/api/v1/namespaces/%s/configmaps"},
	"Secret":    {"v1", "/api/v1/namespaces/%s/secrets"},
	"Widget":    {"example.io/v1", "/apis/example.io/v1/namespaces/%s/widgets"},
	"Realm":     {"example.io/v1", "/apis/example.io/v1/realms"},
}

// make creates an object that is owned by others.
func (b *bed) make(t *testing.T, kind, namespace, name string, finalizers []string, block bool, owners ...*thing) *thing {
	t.Helper()
	ty := types[kind]
	x := &thing{path: ty.path, apiVersion: ty.apiVersion, kind: kind, name: name}
	if kind != "Realm" {
		x.namespace, x.path = namespace, fmt.Sprintf(ty.path, namespace)
	}
	for _, o := range owners {
		x.owners = append(x.owners, reference{o.apiVersion, o.kind, o.name, o.UID, block})
	}
	var made struct{ Metadata struct{ UID string } }
	b.do(t, http.MethodPost, x.path, object{"apiVersion": ty.apiVersion, "kind": kind,
		"metadata": object{"name": name, "ownerReferences": x.owners, "finalizers": finalizers}}, &made)
	x.UID, x.Finalizers = made.Metadata.UID, finalizers
	return x
}

// now reads an object as it is; nil if it is gone.
func (b *bed) now(t *testing.T, x *thing) *thing {
	t.Helper()
	var got struct {
		Metadata struct {
			UID               string
			OwnerReferences   []reference
			Finalizers        []string
			DeletionTimestamp *time.Time
		}
	}
	err := peers.Request(t.Context(), b.admin, http.MethodGet, b.cp.URL()+x.path+"/"+x.name, nil, &got)
	var status *peers.StatusError
	switch {
	case errors.As(err, &status) && status.Code == http.StatusNotFound:
		return nil
	case err != nil:
		t.Fatal(err)
	case got.Metadata.UID != x.UID:
		return nil
	}
	is := *x
	is.owners, is.Finalizers, is.terminating = got.Metadata.OwnerReferences, got.Metadata.Finalizers, got.Metadata.DeletionTimestamp != nil
	return &is
}

func (b *bed) delete(t *testing.T, x *thing, p gc.Policy) {
	t.Helper()
	b.do(t, http.MethodDelete, x.path+"/"+x.name, object{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": p}, nil)
}

// serveFinalizers is what the one whose finalizer it is does.
func (b *bed) serveFinalizers(t *testing.T, x *thing) {
	t.Helper()
	is := b.now(t, x)
	if is == nil || !is.terminating || !slices.Contains(is.Finalizers, hold) {
		return
	}
	keep := slices.DeleteFunc(is.Finalizers, func(f string) bool { return f == hold })
	patch := object{"metadata": object{"finalizers": keep}}
	if err := peers.Request(t.Context(), b.admin, http.MethodPatch, b.cp.URL()+x.path+"/"+x.name, patch, nil); err != nil {
		t.Fatal(err)
	}
}

const hold = "example.io/hold"

func (b *bed) options(t *testing.T, kubeconfig string, x *thing, p gc.Policy) preview.Options {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return preview.Options{Config: config, Query: preview.Query{Resource: x.kind, Name: x.name, Namespace: x.namespace, Policy: p}}
}

func await(t *testing.T, what string, holds func() error) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for {
		err := holds()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("wait for %s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func dump(v any) string {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}
