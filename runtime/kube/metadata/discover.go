package metadata

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
	"github.com/ebb-agent/ebb/runtime/kube/naming"
)

// Discovery is what is served now.
type Discovery struct {
	// Types has, for each group and resource that can be listed, watched and
	// deleted, the version that the server prefers; and, marked Unwatched, every
	// other version and type that can be read, so that references to them can be
	// resolved. Events of both groups are left out.
	Types []gc.Type
	// Partial names the versions of groups of which nobody knows what is served,
	// and why. Their types must not be taken for gone.
	Partial map[string]error
	// Unsure is why nobody could say which types other API servers serve. What was
	// known before holds; versions of which nothing was known are marked Aggregated.
	Unsure error
}

// A version of a group, as either form of discovery reports it. Versions of one
// group come in the order of the server's preference.
type groupVersion struct {
	name      string // apps/v1, v1
	resources []resource
	err       error // nobody knows, or not lately
}

type resource struct {
	name       string
	kind       string
	namespaced bool
	verbs      []string
}

// Discover asks what is served. An error means that nothing is known.
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
	all := append(core, groups...)
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
				continue // they are many, own nothing and are owned by nobody
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

// ordered puts those first that can be watched, of each kind, and else goes by name: which
// is the first of a kind must not change.
func ordered(all []resource) []resource {
	all = slices.Clone(all) // those of before may be asked for at the same time
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

// sound says whether what a server calls a resource can be asked for.
func (r *resource) sound() bool { return segment(r.name) && segment(r.kind) }

const aggregatedKind = "APIGroupDiscoveryList"

const acceptDiscovery = mediaJSON + ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	mediaJSON + ";g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList," + mediaJSON

// discoverUnder asks for everything at once, and again for each version if the
// server does not know how to answer that.
func (c *Client) discoverUnder(ctx context.Context, path string) ([]groupVersion, error) {
	q := request{method: http.MethodGet, path: path, accept: acceptDiscovery, limit: maxDiscovery}
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
	var doc discoveryDocument
	err = q.decode(a, &doc)
	var f *fault.Answer
	switch {
	case errors.As(err, &f) && f.Code == http.StatusNotFound && path == "/api":
		return nil, nil // there are control planes without the core group
	case err != nil:
		return nil, err
	case doc.Kind == aggregatedKind:
		versions := doc.aggregated()
		c.discovered.Store(path, discovered{a.etag, versions})
		return versions, nil
	case doc.Kind == "APIVersions":
		return c.eachVersion(ctx, doc.Versions), nil
	case doc.Kind == "APIGroupList":
		return c.eachVersion(ctx, doc.groupVersions()), nil
	}
	return nil, broken(q.op(), fault.Nonsense("discovery that is a %q", fault.Clean(doc.Kind)))
}

// discovered is what a path was answered, and what the server calls that answer: as long
// as it has not changed the server need not say it again.
type discovered struct {
	etag     string
	versions []groupVersion
}

// eachVersion asks for the resources of each version by itself.
func (c *Client) eachVersion(ctx context.Context, names []string) []groupVersion {
	all := make([]groupVersion, len(names))
	var group errgroup.Group
	group.SetLimit(8)
	for i, name := range names {
		group.Go(func() error {
			all[i].name = name
			all[i].resources, all[i].err = c.resourcesOf(ctx, name)
			return nil
		})
	}
	_ = group.Wait() // each says by itself what went wrong
	return all
}

func (c *Client) resourcesOf(ctx context.Context, apiVersion string) ([]resource, error) {
	path, err := pathOf(apiVersion)
	if err != nil {
		return nil, err
	}
	q := request{method: http.MethodGet, path: path, accept: mediaJSON, limit: maxDiscovery}
	var list metav1.APIResourceList
	if err := c.askJSON(ctx, q, &list); err != nil {
		return nil, err
	}
	if list.Kind != "APIResourceList" {
		return nil, broken(q.op(), fault.Nonsense("discovery that is a %q", fault.Clean(list.Kind)))
	}
	return resources(&list), nil
}

// discoveryDocument is any of the three that /api and /apis answer with.
type discoveryDocument struct {
	Kind     string            `json:"kind"`
	Versions []string          `json:"versions"` // APIVersions
	Groups   []metav1.APIGroup `json:"groups"`   // APIGroupList
	Items    []struct {
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
	} `json:"items"` // APIGroupDiscoveryList
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

// Names are what people call the types that are served, versions in the server's order of
// preference. [naming.ErrNoNames]: it does not know aggregated discovery.
func (c *Client) Names(ctx context.Context) (all []naming.Resource, err error) {
	for _, path := range []string{"/api", "/apis"} {
		var doc discoveryDocument
		err := c.askJSON(ctx, request{method: http.MethodGet, path: path, accept: acceptDiscovery, limit: maxDiscovery}, &doc)
		switch {
		case Answered(err) == http.StatusNotAcceptable, err == nil && doc.Kind != aggregatedKind:
			return nil, naming.ErrNoNames
		case err != nil:
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

// resources that a version of a group answers with.
func resources(l *metav1.APIResourceList) (all []resource) {
	for _, r := range l.APIResources {
		made := resource{name: r.Name, kind: r.Kind, namespaced: r.Namespaced, verbs: r.Verbs}
		if !strings.Contains(r.Name, "/") && made.sound() { // no subresource
			all = append(all, made)
		}
	}
	return all
}
