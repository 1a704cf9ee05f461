package e2e

import (
	"slices"
	"strings"

	"github.com/ebb-agent/ebb/tools/admission"
)

// grant is one rule of a role; Namespace "" is a cluster role.
type grant struct {
	namespace, group, resource string // resource may be "a/b", "*", "*/b"
	names                      []string
	verb                       string
}

// allows is role-based access control, as far as this test has it.
func allows(grants []grant, verb, group, resource, sub, namespace, name string) bool {
	full := resource
	if sub != "" {
		full += "/" + sub
	}
	return slices.ContainsFunc(grants, func(g grant) bool {
		return (g.namespace == "" || g.namespace == namespace) &&
			(g.verb == "*" || g.verb == verb) &&
			(g.group == "*" || g.group == group) &&
			(g.resource == "*" || g.resource == full || sub != "" && g.resource == "*/"+sub) &&
			(g.names == nil || slices.Contains(g.names, name))
	})
}

// reference is an owner reference.
type reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Block      *bool  `json:"blockOwnerDeletion,omitempty"`
}

func (r reference) blocks() bool { return r.Block != nil && *r.Block }

func (r reference) group() string {
	if group, _, ok := strings.Cut(r.APIVersion, "/"); ok {
		return group
	}
	return ""
}

func sameReference(a, b reference) bool {
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID &&
		(a.Block == nil) == (b.Block == nil) && a.blocks() == b.blocks()
}

// write is a request that may change owner references.
type write struct {
	grants           []grant
	group, resource  string
	sub              string
	namespace, name  string
	update, isStatus bool // a write of pods/status
	old, now         []reference
}

// gate is who decides: the plugin, or the policy.
type gate struct {
	// resolve returns the resource of a kind, and whether it has a namespace. Not ok
	// refuses.
	resolve func(reference) (resource string, namespaced, ok bool)
	// most is how many owners can be blocked at once; 0: any number.
	most int
	// strict takes a UID that was there twice for open if one of them was.
	strict bool
}

// refuses is the rule that both implement.
func (g gate) refuses(w write) bool {
	if w.isStatus || slices.EqualFunc(w.old, w.now, sameReference) {
		return false
	}
	if w.update && !allows(w.grants, "delete", w.group, w.resource, w.sub, w.namespace, w.name) {
		return true
	}
	var blocking []reference
	for _, r := range w.now {
		if r.blocks() && !g.blockedBefore(w.old, r.UID) {
			blocking = append(blocking, r)
		}
	}
	if len(blocking) == 0 || allows(w.grants, "update", "*", "*", "finalizers", "", "*") {
		return false
	}
	if g.most > 0 && len(blocking) > g.most {
		return true
	}
	return slices.ContainsFunc(blocking, func(r reference) bool {
		resource, namespaced, ok := g.resolve(r)
		namespace := ""
		if namespaced {
			namespace = w.namespace
		}
		return !ok || !allows(w.grants, "update", r.group(), resource, "finalizers", namespace, r.Name)
	})
}

func (g gate) blockedBefore(old []reference, uid string) bool {
	blocked, open, last := false, false, false
	for _, r := range old {
		if r.UID == uid {
			last = r.blocks()
			blocked, open = blocked || last, open || !last
		}
	}
	if g.strict {
		return blocked && !open
	}
	return last
}

// kinds of this test's API server beside the built-in ones. The last two are what
// the policy takes for something else.
var custom = []admission.Kind{
	{Group: "example.io", Kind: "Widget", Resource: "widgets", Namespaced: true},
	{Group: "example.io", Kind: "Staff", Resource: "staff", Namespaced: true},
	{Group: "example.io", Kind: "Gadget", Resource: "gadgets"},
}

var plugin = gate{resolve: func(r reference) (string, bool, bool) {
	if strings.HasSuffix(r.APIVersion, "/v9") {
		return "", false, false // not served
	}
	for _, k := range slices.Concat(admission.Builtin, custom) {
		// Discovery gives the lower-case name of a kind, too.
		if k.Group == r.group() && (k.Kind == r.Kind || strings.ToLower(k.Kind) == r.Kind) {
			return k.Resource, k.Namespaced, true
		}
	}
	return "", false, false
}}

var policy = gate{most: admission.MostOwners, strict: true, resolve: func(r reference) (string, bool, bool) {
	for _, k := range admission.Builtin {
		if k.Group == r.group() && k.Kind == r.Kind {
			return k.Resource, k.Namespaced, true
		}
	}
	return admission.Guess(r.Kind), true, true
}}

// knownToDiffer returns why plugin and policy may disagree about a write, or "" if they
// may not. The list is the one in docs/admission.md.
func knownToDiffer(w write) string {
	uids := make(map[string]int)
	for _, r := range w.old {
		uids[r.UID]++
		if uids[r.UID] > 1 {
			return "a UID twice"
		}
	}
	if len(w.now) > admission.MostOwners {
		return "many owners"
	}
	for _, r := range w.now {
		if strings.HasSuffix(r.APIVersion, "/v9") {
			return "a version that is not served"
		}
		switch r.Kind {
		case "Gadget":
			return "a custom resource without a namespace"
		case "Staff":
			return "an irregular plural"
		case "Thing":
			return "a kind that is not served"
		case "node":
			return "a lower-case kind"
		}
	}
	return ""
}
