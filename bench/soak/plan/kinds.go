// Package plan generates what a soak does, from a seed alone: the objects, the operations on them,
// and the faults. The same seed gives the same plan. How the operations end does not change the
// plan.
package plan

import (
	"fmt"
	"time"
)

// Kind is a type of objects.
type Kind struct {
	Group      string
	Versions   []string // the first is stored
	Kind       string
	Resource   string
	Namespaced bool
	Custom     bool // by a definition, which the soak makes
	Outside    bool // in another API server
}

// APIVersion returns one of the kind's versions, with its group.
func (k *Kind) APIVersion(n int) string {
	v := k.Versions[n%len(k.Versions)]
	if k.Group == "" {
		return v
	}
	return k.Group + "/" + v
}

// Path returns the path of an object, or of all objects for the name "".
func (k *Kind) Path(version int, namespace, name string) string {
	path := "/apis/" + k.APIVersion(version)
	if k.Group == "" {
		path = "/api/" + k.APIVersion(version)
	}
	if k.Namespaced {
		path += "/namespaces/" + namespace
	}
	path += "/" + k.Resource
	if name != "" {
		path += "/" + name
	}
	return path
}

// JobTTL is the TTL of all Jobs.
const JobTTL = 20 * time.Second

// builtin is how many kinds exist without a definition.
const builtin = 13

// Late is how many definitions are made while the soak runs.
const Late = 6

// Kinds returns the built-in kinds, one of another API server, and this many definitions. The last
// Late of the definitions are made later.
func Kinds(definitions int) (kinds []*Kind) {
	kinds = []*Kind{
		{Versions: []string{"v1"}, Kind: "ConfigMap", Resource: "configmaps", Namespaced: true},
		{Versions: []string{"v1"}, Kind: "Secret", Resource: "secrets", Namespaced: true},
		{Versions: []string{"v1"}, Kind: "Pod", Resource: "pods", Namespaced: true},
		{Group: "batch", Versions: []string{"v1"}, Kind: "Job", Resource: "jobs", Namespaced: true},
		{Group: "apps", Versions: []string{"v1"}, Kind: "ReplicaSet", Resource: "replicasets", Namespaced: true},
		{Group: "rbac.authorization.k8s.io", Versions: []string{"v1"}, Kind: "ClusterRole", Resource: "clusterroles"},
		{Versions: []string{"v1"}, Kind: "Node", Resource: "nodes"},
		{Group: "storage.k8s.io", Versions: []string{"v1"}, Kind: "VolumeAttachment", Resource: "volumeattachments"},
		{Group: "storage.k8s.io", Versions: []string{"v1"}, Kind: "CSINode", Resource: "csinodes"},
		{Versions: []string{"v1"}, Kind: "PersistentVolume", Resource: "persistentvolumes"},
		{Group: "coordination.k8s.io", Versions: []string{"v1"}, Kind: "Lease", Resource: "leases", Namespaced: true},
		// PodCertificateRequests are left out: API servers of 1.36 do not serve them by default.
		{Group: "certificates.k8s.io", Versions: []string{"v1"}, Kind: "CertificateSigningRequest", Resource: "certificatesigningrequests"},
		{Group: "ext.example.com", Versions: []string{"v1"}, Kind: "Thing", Resource: "things", Namespaced: true, Outside: true},
	}
	for i := range definitions {
		k := &Kind{Group: fmt.Sprintf("g%d.soak.example.com", i%7), Versions: []string{"v1"}, Kind: fmt.Sprintf("Soak%d", i),
			Resource: fmt.Sprintf("soak%ds", i), Namespaced: i%10 != 9, Custom: true}
		if i%3 == 0 {
			k.Versions = append(k.Versions, "v1beta1")
		}
		kinds = append(kinds, k)
	}
	return kinds
}

// Definition returns the definition of a custom kind. served reports which versions are served.
func (k *Kind) Definition(served func(version string) bool) map[string]any {
	type object = map[string]any
	var versions []any
	for i, v := range k.Versions {
		versions = append(versions, object{"name": v, "served": served(v), "storage": i == 0, "schema": object{
			"openAPIV3Schema": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
	}
	scope := "Cluster"
	if k.Namespaced {
		scope = "Namespaced"
	}
	return object{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": k.Resource + "." + k.Group},
		"spec": object{"group": k.Group, "scope": scope, "versions": versions,
			"names": object{"plural": k.Resource, "singular": k.Resource[:len(k.Resource)-1], "kind": k.Kind, "listKind": k.Kind + "List"}}}
}
