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
	Namespace string // empty: all namespaces, or a resource without one
	Group     string
	Resource  string // with a subresource: pods/status
	Verb      string
}

// Rights returns the rights of the collectors that a configuration turns on, sorted. It leaves out
// the collector of owners, which needs get, list and watch of every type that can have owners, and
// patch and delete to enforce. The chart's rules are tested against them.
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

// Collectors returns the names of all collectors but that of owners.
func Collectors() []gc.Collector { return collectorNames()[1:] }

// RightsOf returns the [Rights] of one collector in a mode, with its default settings.
func RightsOf(name gc.Collector, mode config.Mode) []Right {
	c := config.Default()
	c.Mode = config.Enforce
	for _, other := range Collectors() {
		c.Collectors.SetMode(other, config.Off)
	}
	c.Collectors.SetMode(name, mode)
	return Rights(c)
}

// resource returns the resource of a built-in type, as in the path of a request.
func (k typeKey) resource() schema.GroupVersionResource {
	r, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(k.apiVersion, k.kind))
	return r
}

// String returns a text that is unique for each Right.
func (r Right) String() string {
	return r.Verb + " " + r.Group + "/" + r.Resource + " " + r.Namespace
}

func rights(namespace, group, resource string, verbs ...string) (list []Right) {
	for _, v := range verbs {
		list = append(list, Right{namespace, group, resource, v})
	}
	return list
}

// deletes returns a function for registration.rights: it gives the right to delete some resources
// if a collector acts.
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

// nameCharacters are the characters of a namespace's name. A pattern has others.
const nameCharacters = "abcdefghijklmnopqrstuvwxyz0123456789-"

// leaseRights returns the rights of the collector of Leases. In any mode, it reads the holders of
// elections live if their Leases may be deleted. If a pattern gives the namespaces of an election,
// it needs the rights in all namespaces.
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

// volumeRights returns the rights of the collector of volumes. In any mode it reads live whether a
// Pod is bound to the Node that has left an attachment or a CSINode.
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
