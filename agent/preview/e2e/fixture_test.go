package e2e

import (
	"encoding/json"
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

type object = peerstest.Object

const patience = time.Minute

// fixture is a control plane whose only controller is the collector.
type fixture struct {
	*peerstest.Cluster
	kubeconfig string
}

func start(t *testing.T) *fixture {
	t.Helper()
	b := &fixture{Cluster: peerstest.Start(t, peers.Config{ControllerManager: true,
		ControllerManagerArgs: []string{"--controllers=garbage-collector-controller,serviceaccount-controller", "--kube-api-qps=1000", "--kube-api-burst=1000"}})}
	b.kubeconfig = b.AdminKubeconfig(t)
	widgets := peerstest.Definition("example.io", "Widget", "widgets", "Namespaced", "v1")
	widgets["spec"].(object)["names"].(object)["shortNames"] = []string{"wi"}
	b.Define(t, widgets)
	b.Define(t, peerstest.Definition("example.io", "Realm", "realms", "Cluster", "v1"))
	return b
}

// thing is an object of this test.
type thing struct {
	path, apiVersion, kind string
	namespace, name        string
	UID                    string
	owners                 []peerstest.Reference
	Finalizers             []string
	terminating            bool
}

var types = map[string]struct{ apiVersion, path string }{
	"ConfigMap": {"v1", "/api/v1/namespaces/%s/configmaps"},
	"Secret":    {"v1", "/api/v1/namespaces/%s/secrets"},
	"Widget":    {"example.io/v1", "/apis/example.io/v1/namespaces/%s/widgets"},
	"Realm":     {"example.io/v1", "/apis/example.io/v1/realms"},
}

// make creates an object that is owned by others.
func (b *fixture) make(t *testing.T, kind, namespace, name string, finalizers []string, block bool, owners ...*thing) *thing {
	t.Helper()
	ty := types[kind]
	x := &thing{path: ty.path, apiVersion: ty.apiVersion, kind: kind, name: name}
	if kind != "Realm" {
		x.namespace, x.path = namespace, fmt.Sprintf(ty.path, namespace)
	}
	for _, o := range owners {
		x.owners = append(x.owners, peerstest.Reference{APIVersion: o.apiVersion, Kind: o.kind, Name: o.name, UID: o.UID, Block: block})
	}
	x.UID = b.Must(t, http.MethodPost, x.path, object{"apiVersion": ty.apiVersion, "kind": kind,
		"metadata": object{"name": name, "ownerReferences": x.owners, "finalizers": finalizers}})
	x.Finalizers = finalizers
	return x
}

// now reads an object as it is; nil if it is gone.
func (b *fixture) now(t *testing.T, x *thing) *thing {
	t.Helper()
	got, err := b.Get(t.Context(), x.path+"/"+x.name)
	if err != nil {
		t.Fatal(err)
	}
	if got == nil || got.UID != x.UID {
		return nil
	}
	is := *x
	is.owners, is.Finalizers, is.terminating = got.OwnerReferences, got.Finalizers, got.DeletionTimestamp != ""
	return &is
}

func (b *fixture) delete(t *testing.T, x *thing, p gc.Policy) {
	t.Helper()
	b.Must(t, http.MethodDelete, x.path+"/"+x.name, object{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": p})
}

// serveFinalizers is what the one whose finalizer it is does.
func (b *fixture) serveFinalizers(t *testing.T, x *thing) {
	t.Helper()
	is := b.now(t, x)
	if is == nil || !is.terminating || !slices.Contains(is.Finalizers, hold) {
		return
	}
	keep := slices.DeleteFunc(is.Finalizers, func(f string) bool { return f == hold })
	b.Must(t, http.MethodPatch, x.path+"/"+x.name, object{"metadata": object{"finalizers": keep}})
}

const hold = "example.io/hold"

func (b *fixture) options(t *testing.T, kubeconfig string, x *thing, p gc.Policy) preview.Options {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return preview.Options{Config: config, Query: preview.Query{Resource: x.kind, Name: x.name, Namespace: x.namespace, Policy: p}}
}

func dump(v any) string {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}
