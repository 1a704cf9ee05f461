// Package naming finds the type that a person means by "deploy", "pods", "widgets.example.io" or
// "Deployment.apps", as kubectl does.
//
// [Find] chooses among the names that the API server reports (metadata.Client.Names), and is
// pure. A plural takes precedence over a singular, a singular over a short name, and a short name
// over a kind. Among several matches of one rank the core group wins. Without a match in the core
// group the name is ambiguous, and the error lists all matches. Only types that can be deleted
// count.
// The names are untrusted: they are bounded, and only compared.
//
// Sources: k8s.io/client-go/restmapper (shortcut.go, discovery.go),
// k8s.io/cli-runtime/pkg/resource (builder.go), KEP-3352.
package naming

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Resource is a type and its names.
type Resource struct {
	Group, Version string
	Plural, Kind   string
	Singular       string
	Short          []string
	Deletable      bool
}

// String returns the name that is never ambiguous: the plural, with the group if there is one.
func (r Resource) String() string {
	if r.Group == "" {
		return r.Plural
	}
	return r.Plural + "." + r.Group
}

var (
	// ErrUnknown and ErrAmbiguous are errors of Find.
	ErrUnknown   = errors.New("the server has no such resource type")
	ErrAmbiguous = errors.New("ambiguous")
)

// Find returns the type that a name means: pods, po, pod, Pod, deployments.apps,
// deployments.v1.apps, Deployment.apps. It ignores case.
func Find(name string, all []Resource) (Resource, error) {
	want, rest, _ := strings.Cut(strings.ToLower(name), ".")
	ranks := []func(Resource) bool{
		func(r Resource) bool { return strings.ToLower(r.Plural) == want },
		func(r Resource) bool { return strings.ToLower(r.Singular) == want },
		func(r Resource) bool { return slices.Contains(r.Short, want) },
		func(r Resource) bool { return strings.ToLower(r.Kind) == want },
	}
	for _, matches := range ranks {
		var found []Resource
		for _, r := range all {
			if r.Deletable && want != "" && matches(r) && r.in(rest) && !slices.ContainsFunc(found, r.same) {
				found = append(found, r)
			}
		}
		if core := slices.IndexFunc(found, func(r Resource) bool { return r.Group == "" }); core >= 0 {
			return found[core], nil
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return Resource{}, fmt.Errorf("resource type %q: %w: it may be %s", name, ErrAmbiguous, list(found))
		}
	}
	return Resource{}, fmt.Errorf("resource type %q: %w", name, ErrUnknown)
}

// in reports whether the part of a name after its first dot fits this type. It fits if it is
// empty, the group, the version and the group, or in the core group the version.
func (r Resource) in(rest string) bool {
	return rest == "" || rest == r.Group || rest == r.Version+"."+r.Group || r.Group == "" && rest == r.Version
}

func (r Resource) same(o Resource) bool { return r.Group == o.Group && r.Plural == o.Plural }

func list(found []Resource) string {
	names := make([]string, len(found))
	for i, r := range found {
		names[i] = r.String()
	}
	slices.Sort(names)
	return strings.Join(names, " or ")
}
