package metadata

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
	"github.com/ebb-agent/ebb/runtime/kube/naming"
)

// Discovery has the types that are served now.
type Discovery struct {
	// Types has the preferred version of each group and resource that can be listed, watched and
	// deleted. It also has every other version and type that can be read, marked Unwatched, so
	// that references to them can be resolved. Events of both groups are left out.
	Types []gc.Type
	// Partial has the group versions whose types are unknown, and why. Their types must not be
	// treated as gone.
	Partial map[string]error
	// Unsure is why the types that other API servers serve are unknown. What was known before is
	// used. Versions that were never known are marked Aggregated.
	Unsure error
}

// groupVersion is a version of a group. Versions of one group are in the server's order of
// preference.
type groupVersion struct {
	name      string // apps/v1, v1
	resources []resource
	err       error // the resources are unknown or stale
}

type resource struct {
	name       string
	kind       string
	namespaced bool
	verbs      []string
}

// Discover requests what is served. After an error nothing is known.
func (c *Client) Discover(ctx context.Context) (Discovery, error) {
	var core, groups []groupVersion
	var coreErr, groupsErr, unsure error
	var remote versions
	var wg sync.WaitGroup
	wg.Go(func() { core, coreErr = c.discoverUnder(ctx, "/api") })
	wg.Go(func() { groups, groupsErr = c.discoverUnder(ctx, "/apis") })
	wg.Go(func() { remote, unsure = c.remoteVersions(ctx) })
	wg.Wait()
	if err := errors.Join(coreErr, groupsErr); err != nil {
		return Discovery{}, err
	}
	d := Discovery{Partial: make(map[string]error)}
	all := slices.Concat(core, groups)
	remote, d.Unsure = c.remoteOf(ctx, all, remote, unsure)
	chosen := make(map[[2]string]bool) // group, resource: a version is watched
	others := make(alike)
	for _, gv := range all {
		if gv.err != nil {
			d.Partial[gv.name] = gv.err
		}
		kinds := make(map[string]bool)
		for _, r := range ordered(gv.resources) {
			key := [2]string{gc.GroupOf(gv.name), r.name}
			t := gc.Type{APIVersion: gv.name, Kind: r.kind, Resource: r.name, Namespaced: r.namespaced, Aggregated: remote.has(gv.name)}
			switch {
			case r.name == "events" && (key[0] == "" || key[0] == "events.k8s.io"):
				continue // there are many, and they neither own objects nor have owners
			case kinds[r.kind]:
				if r.can("get") {
					others[[2]string{gv.name, r.kind}] = append(others[[2]string{gv.name, r.kind}], r)
				}
				if !r.watchable() || chosen[key] {
					continue
				}
				chosen[key], t.Kind = true, cascade.Second(r.kind, r.name)
			case r.watchable() && !chosen[key]:
				chosen[key] = true
			case r.can("get"):
				t.Unwatched = true
			default:
				continue
			}
			kinds[r.kind] = true
			d.Types = append(d.Types, t)
		}
	}
	c.alike.Store(&others)
	return d, nil
}

func (r *resource) can(verb string) bool { return slices.Contains(r.verbs, verb) }

func (r *resource) watchable() bool { return r.can("list") && r.can("watch") && r.can("delete") }

// ordered sorts watchable resources first, and then by name. The first resource of a kind must be
// the same in each call.
func ordered(all []resource) []resource {
	all = slices.Clone(all) // another Discover may use the cached slice at the same time
	slices.SortStableFunc(all, func(a, b resource) int {
		switch {
		case a.watchable() == b.watchable():
			return strings.Compare(a.name, b.name)
		case a.watchable():
			return -1
		}
		return 1
	})
	return all
}

// sound reports whether a resource can be requested by the names that the server gave it.
func (r *resource) sound() bool { return segment(r.name) && segment(r.kind) }

const aggregatedKind = "APIGroupDiscoveryList"

// acceptDiscovery asks for aggregated discovery, which API servers have since Kubernetes 1.30.
const acceptDiscovery = mediaJSON + ";g=apidiscovery.k8s.io;v=v2;as=" + aggregatedKind + "," + mediaJSON

func discoveryOf(path string) request {
	return request{method: http.MethodGet, path: path, accept: acceptDiscovery, limit: maxDiscovery}
}

// decodeDiscovery returns nothing for a control plane without the core group.
func (q request) decodeDiscovery(a *answer) (doc discoveryDocument, err error) {
	err = q.decode(a, &doc)
	var f *fault.Answer
	switch {
	case errors.As(err, &f) && f.Code == http.StatusNotFound && q.path == "/api":
		return discoveryDocument{}, nil
	case err == nil && doc.Kind != aggregatedKind:
		err = broken(q.op(), fault.Nonsense("discovery that is a %q: ebb needs Kubernetes 1.30 or newer", fault.Clean(doc.Kind)))
	}
	return doc, err
}

func (c *Client) discoverUnder(ctx context.Context, path string) ([]groupVersion, error) {
	q := discoveryOf(path)
	known, _ := c.discovered.Load(path)
	last, _ := known.(discovered)
	q.ifNoneMatch = last.etag
	a, err := c.ask(ctx, q)
	if err != nil {
		return nil, err
	}
	if a.code == http.StatusNotModified && last.etag != "" {
		return last.versions, nil
	}
	doc, err := q.decodeDiscovery(a)
	if err != nil {
		return nil, err
	}
	versions := doc.aggregated()
	if doc.Kind != "" {
		c.discovered.Store(path, discovered{a.etag, versions})
	}
	return versions, nil
}

// discovered is the last answer for a path, with its ETag. The server need not send the answer
// again while it is unchanged.
type discovered struct {
	etag     string
	versions []groupVersion
}

// discoveryDocument is the APIGroupDiscoveryList that /api and /apis return.
type discoveryDocument struct {
	Kind  string `json:"kind"`
	Items []struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Versions []struct {
			Version   string `json:"version"`
			Freshness string `json:"freshness"`
			Resources []struct {
				Resource     string   `json:"resource"`
				Singular     string   `json:"singularResource"`
				Short        []string `json:"shortNames"`
				Scope        string   `json:"scope"`
				Verbs        []string `json:"verbs"`
				ResponseKind struct {
					Kind string `json:"kind"`
				} `json:"responseKind"`
			} `json:"resources"`
		} `json:"versions"`
	} `json:"items"`
}

func (d *discoveryDocument) aggregated() (all []groupVersion) {
	for _, group := range d.Items {
		for _, v := range group.Versions {
			gv := groupVersion{name: schema.GroupVersion{Group: group.Metadata.Name, Version: v.Version}.String()}
			if v.Freshness != "" && v.Freshness != "Current" {
				gv.err = &fault.Answer{Fault: fault.Fault{Op: "discovery", Kind: ErrUnavailable, Text: "what is known of " + fault.Clean(gv.name) + " is " + fault.Clean(v.Freshness),
					Hint: "does the API server behind it answer?"}}
			}
			for _, r := range v.Resources {
				made := resource{name: r.Resource, kind: r.ResponseKind.Kind, namespaced: r.Scope == "Namespaced", verbs: r.Verbs}
				if made.sound() && (r.Scope == "Namespaced" || r.Scope == "Cluster") {
					gv.resources = append(gv.resources, made)
				}
			}
			if _, err := pathOf(gv.name); err == nil {
				all = append(all, gv)
			}
		}
	}
	return all
}

// Names returns the names of the types that are served, versions in the server's order of
// preference.
func (c *Client) Names(ctx context.Context) (all []naming.Resource, err error) {
	for _, path := range []string{"/api", "/apis"} {
		q := discoveryOf(path)
		a, err := c.ask(ctx, q)
		if err != nil {
			return nil, err
		}
		doc, err := q.decodeDiscovery(a)
		if err != nil {
			return nil, err
		}
		all = append(all, doc.names()...)
	}
	return all, nil
}

func (d *discoveryDocument) names() (all []naming.Resource) {
	for _, g := range d.Items {
		for _, v := range g.Versions {
			for _, r := range v.Resources {
				all = append(all, naming.Resource{Group: g.Metadata.Name, Version: v.Version, Plural: r.Resource, Kind: r.ResponseKind.Kind,
					Singular: r.Singular, Short: r.Short, Deletable: slices.Contains(r.Verbs, "delete")})
			}
		}
	}
	return all
}
