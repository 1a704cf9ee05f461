package metadata

import "github.com/ebb-agent/ebb/runtime/kube/fault"

import "strings"

// discoveryDocument is any of the three that /api and /apis answer with.
type discoveryDocument struct {
	Kind     string   `json:"kind"`
	Versions []string `json:"versions"` // APIVersions
	Groups   []struct {
		Name             string       `json:"name"`
		Versions         []apiVersion `json:"versions"`
		PreferredVersion apiVersion   `json:"preferredVersion"`
	} `json:"groups"` // APIGroupList
	Items []struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Versions []versionDiscovery `json:"versions"`
	} `json:"items"` // APIGroupDiscoveryList
}

type apiVersion struct {
	GroupVersion string `json:"groupVersion"`
}

type versionDiscovery struct {
	Version   string `json:"version"`
	Freshness string `json:"freshness"`
	Resources []struct {
		Resource     string `json:"resource"`
		ResponseKind *struct {
			Kind string `json:"kind"`
		} `json:"responseKind"`
		Scope string   `json:"scope"`
		Verbs []string `json:"verbs"`
	} `json:"resources"`
}

func (d *discoveryDocument) aggregated() (all []groupVersion) {
	for _, group := range d.Items {
		for _, v := range group.Versions {
			gv := groupVersion{name: joinVersion(group.Metadata.Name, v.Version)}
			if v.Freshness != "" && v.Freshness != "Current" {
				gv.err = &problem{Fault: fault.Fault{Op: "discovery", Kind: ErrUnavailable, Text: "what is known of " + fault.Clean(gv.name) + " is " + fault.Clean(v.Freshness),
					Hint: "does the API server behind it answer?"}}
			}
			for _, r := range v.Resources {
				made := resource{name: r.Resource, namespaced: r.Scope == "Namespaced", verbs: r.Verbs}
				if r.ResponseKind != nil {
					made.kind = r.ResponseKind.Kind
				}
				if made.sound() && (r.Scope == "Namespaced" || r.Scope == "Cluster") {
					gv.resources = append(gv.resources, made)
				}
			}
			if _, err := versionPath(gv.name); err == nil {
				all = append(all, gv)
			}
		}
	}
	return all
}

// groupVersions puts each group's preferred version first.
func (d *discoveryDocument) groupVersions() (names []string) {
	for _, g := range d.Groups {
		first := g.PreferredVersion.GroupVersion
		if first != "" {
			names = append(names, first)
		}
		for _, v := range g.Versions {
			if v.GroupVersion != first {
				names = append(names, v.GroupVersion)
			}
		}
	}
	return names
}

// resourceList is what a version of a group answers with.
type resourceList struct {
	Kind      string `json:"kind"`
	Resources []struct {
		Name       string   `json:"name"`
		Kind       string   `json:"kind"`
		Namespaced bool     `json:"namespaced"`
		Verbs      []string `json:"verbs"`
	} `json:"resources"`
}

func (l *resourceList) resources() (all []resource) {
	for _, r := range l.Resources {
		made := resource{name: r.Name, kind: r.Kind, namespaced: r.Namespaced, verbs: r.Verbs}
		if !strings.Contains(r.Name, "/") && made.sound() { // no subresource
			all = append(all, made)
		}
	}
	return all
}

// apiServiceList says who serves what.
type apiServiceList struct {
	Kind  string `json:"kind"`
	Items []struct {
		Spec struct {
			Group   string    `json:"group"`
			Version string    `json:"version"`
			Service *struct{} `json:"service"`
		} `json:"spec"`
	} `json:"items"`
}
