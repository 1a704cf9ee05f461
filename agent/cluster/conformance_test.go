package cluster

import (
	"testing"

	"github.com/ebb-agent/ebb/agent/cluster/apitest"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// A real API server passes the same suite in e2e.
func TestFakeConforms(t *testing.T) {
	f := newFake()
	f.types = append(f.types, gc.Type{APIVersion: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespaced: true})
	of := func(name string) gc.Object {
		return gc.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: name}
	}
	apitest.Conformance(t, apitest.Server{
		API:    f,
		Follow: func(typ gc.Type, sink metadata.Sink) apitest.Follower { return f.Follow(typ, nil, sink) },
		Create: func(_ *testing.T, name string, owners []gc.Reference, finalizers ...string) (uid string) {
			o := of(name)
			o.Owners, o.Finalizers = owners, finalizers
			return f.put(o).UID
		},
		Touch:  func(_ *testing.T, name string) { f.put(*f.objects[at(of(name))]) },
		Delete: func(_ *testing.T, name string, p gc.Policy) { f.remove(of(name), p) },
	})
}
