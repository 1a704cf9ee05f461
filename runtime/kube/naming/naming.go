package naming

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Resource is a type and what it is called.
type Resource struct {
	Group, Version string
	Plural, Kind   string
	Singular       string
	Short          []string
	Deletable      bool
}

// String is the name that is never ambiguous.
func (r Resource) String() string {
	if r.Group == "" {
		return r.Plural
	}
	return r.Plural + "." + r.Group
}

// Errors of Find.
var (
	ErrUnknown   = errors.New("the server has no such resource type")
	ErrAmbiguous = errors.New("ambiguous")
)

// Find chooses the type that a name means: pods, po, pod, Pod, deployments.apps,
// deployments.v1.apps, Deployment.apps, in any case.
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

// in says whether what stands behind the first dot means this type: its group, or
// its version and group.
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

const (
	accept   = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
	maxBytes = 32 << 20
)

// ErrNoNames: the server does not tell names in one answer.
var ErrNoNames = errors.New("no aggregated discovery")

// Read asks an API server for its names. The base URL has no slash at its end.
func Read(ctx context.Context, client *http.Client, base string) ([]Resource, error) {
	var all []Resource
	for _, path := range []string{"/api", "/apis"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
		if err != nil {
			return nil, fmt.Errorf("read names of types: %w", err)
		}
		req.Header.Set("Accept", accept)
		resp, err := client.Do(req)
		if err != nil {
			return nil, fmt.Errorf("read names of types: %w", err)
		}
		data, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes+1))
		resp.Body.Close()
		switch {
		case err != nil:
			return nil, fmt.Errorf("read names of types: %w", err)
		case len(data) > maxBytes:
			return nil, fmt.Errorf("read names of types: more than %d bytes", maxBytes)
		case resp.StatusCode == http.StatusNotAcceptable:
			return nil, fmt.Errorf("read names of types: %w", ErrNoNames)
		case resp.StatusCode != http.StatusOK:
			return nil, fmt.Errorf("read names of types: %s %s", path, resp.Status)
		}
		names, err := Decode(data)
		if err != nil {
			return nil, fmt.Errorf("read names of types: %w", err)
		}
		all = append(all, names...)
	}
	return all, nil
}

// Decode reads an APIGroupDiscoveryList, versions in the server's order of
// preference.
func Decode(data []byte) ([]Resource, error) {
	var doc struct {
		Kind  string `json:"kind"`
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Versions []struct {
				Version   string `json:"version"`
				Resources []struct {
					Resource     string `json:"resource"`
					ResponseKind struct {
						Kind string `json:"kind"`
					} `json:"responseKind"`
					Singular string   `json:"singularResource"`
					Short    []string `json:"shortNames"`
					Verbs    []string `json:"verbs"`
				} `json:"resources"`
			} `json:"versions"`
		} `json:"items"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	if doc.Kind != "APIGroupDiscoveryList" {
		return nil, ErrNoNames
	}
	var all []Resource
	for _, g := range doc.Items {
		for _, v := range g.Versions {
			for _, r := range v.Resources {
				all = append(all, Resource{Group: g.Metadata.Name, Version: v.Version, Plural: r.Resource, Kind: r.ResponseKind.Kind,
					Singular: r.Singular, Short: r.Short, Deletable: slices.Contains(r.Verbs, "delete")})
			}
		}
	}
	return all, nil
}
