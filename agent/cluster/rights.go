package cluster

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
)

// Right is one verb on the objects of a resource, as an RBAC rule has it.
type Right struct {
	Namespace string // empty: in all, or the resource has none
	Group     string
	Resource  string // with a subresource: pods/status
	Verb      string
}

// Rights are what the collectors that a configuration turns on ask of the API server, sorted.
// Those of owners are not in it: they need get, list and watch of every type that can have
// owners, and patch and delete to enforce. The chart's rules are tested against them.
func Rights(c config.Config) []Right {
	var all []Right
	for _, r := range registry {
		mode := c.ModeOf(r.name)
		if mode == config.Off {
			continue
		}
		for _, t := range r.types {
			of := t.resource()
			all = append(all, rights("", of.Group, of.Resource, "get", "list", "watch")...)
		}
		all = append(all, r.rights(c.Collectors, mode == config.Enforce)...)
	}
	slices.SortFunc(all, func(a, b Right) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all)
}

// Collectors are the names of all collectors but that of owners.
func Collectors() []gc.Collector { return collectorNames()[1:] }

// RightsOf are the [Rights] of one collector in a mode, with its default settings.
func RightsOf(name gc.Collector, mode config.Mode) []Right {
	c := config.Default()
	c.Mode = config.Enforce
	for _, other := range Collectors() {
		c.Collectors.SetMode(other, config.Off)
	}
	c.Collectors.SetMode(name, mode)
	return Rights(c)
}

// resource is what a path calls the type, which is one of Kubernetes' own.
func (k typeKey) resource() schema.GroupVersionResource {
	r, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(k.apiVersion, k.kind))
	return r
}

// String is unique for a Right.
func (r Right) String() string {
	return r.Verb + " " + r.Group + "/" + r.Resource + " " + r.Namespace
}

func rights(namespace, group, resource string, verbs ...string) (list []Right) {
	for _, v := range verbs {
		list = append(list, Right{namespace, group, resource, v})
	}
	return list
}

// deletes returns the right to delete a resource while a collector acts.
func deletes(group string, resources ...string) func(config.Collectors, bool) []Right {
	return func(_ config.Collectors, acts bool) (list []Right) {
		for _, resource := range resources {
			if acts {
				list = append(list, rights("", group, resource, "delete")...)
			}
		}
		return list
	}
}

func podRights(_ config.Collectors, acts bool) []Right {
	if !acts {
		return nil
	}
	return append(rights("", "", "pods", "delete"), rights("", "", "pods/status", "patch")...)
}

// nameCharacters are those of a namespace's name. A pattern has others.
const nameCharacters = "abcdefghijklmnopqrstuvwxyz0123456789-"

// leaseRights: holders of elections that may be deleted are read live in any mode. An election
// in namespaces that are given by a pattern needs its rights in all of them.
func leaseRights(c config.Collectors, acts bool) (list []Right) {
	deleteIn := []string{"kube-node-lease"}
	for _, e := range c.Leases.Elections {
		if !e.Delete {
			continue
		}
		namespaces := slices.Clone(e.Namespaces)
		if len(namespaces) == 0 {
			namespaces = []string{""}
		}
		for _, n := range namespaces {
			if strings.ContainsFunc(n, func(r rune) bool { return !strings.ContainsRune(nameCharacters, r) }) {
				n = ""
			}
			list = append(list, rights(n, "", "pods", "get")...)
			deleteIn = append(deleteIn, n)
		}
	}
	for _, n := range deleteIn {
		if acts {
			list = append(list, rights(n, "coordination.k8s.io", "leases", "delete")...)
		}
	}
	return list
}

func nodeRights(c config.Collectors, acts bool) []Right {
	if c.Nodes.Label == "" && c.Nodes.Taint == "" {
		return nil // nothing is ever deleted
	}
	return deletes("", "nodes")(c, acts)
}

// volumeRights: whether a Pod is bound to the Node that has left something is read live in any mode.
func volumeRights(c config.Collectors, acts bool) (list []Right) {
	v := c.Volumes
	if v.Attachments || v.CSINodes {
		list = rights("", "", "pods", "list")
	}
	if !acts {
		return list
	}
	if len(v.Drivers) > 0 {
		list = append(list, rights("", "", "persistentvolumes", "patch", "delete")...)
		list = append(list, rights("", "", "pods", "list")...)
		list = append(list, rights("", "", "secrets", "get")...)
	}
	if v.Attachments {
		list = append(list, rights("", "storage.k8s.io", "volumeattachments", "delete")...)
	}
	if v.CSINodes {
		list = append(list, rights("", "storage.k8s.io", "csinodes", "delete")...)
	}
	return list
}
