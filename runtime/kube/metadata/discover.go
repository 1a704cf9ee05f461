package metadata

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
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
			case isEvent(key):
				continue
			case kinds[r.kind]:
				if r.can("get") {
					others.add(gv.name, r)
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

// isEvent: events are many, own nothing and are owned by nobody.
func isEvent(key [2]string) bool {
	return key[1] == "events" && (key[0] == "" || key[0] == "events.k8s.io")
}

// sound says whether what a server calls a resource can be asked for.
func (r *resource) sound() bool { return segment(r.name) && segment(r.kind) }

const acceptDiscovery = mediaJSON + ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	mediaJSON + ";g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList," + mediaJSON

// discoverUnder asks for everything at once, and again for each version if the
// server does not know how to answer that.
func (c *Client) discoverUnder(ctx context.Context, path string) ([]groupVersion, error) {
	q := request{method: http.MethodGet, path: path, accept: acceptDiscovery, limit: maxDiscovery}
	last := c.discovered.of(path)
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
	var f *problem
	switch {
	case errors.As(err, &f) && f.code == http.StatusNotFound && path == "/api":
		return nil, nil // there are control planes without the core group
	case err != nil:
		return nil, err
	case doc.Kind == "APIGroupDiscoveryList":
		versions := doc.aggregated()
		c.discovered.note(path, discovered{a.etag, versions})
		return versions, nil
	case doc.Kind == "APIVersions":
		return c.eachVersion(ctx, doc.Versions), nil
	case doc.Kind == "APIGroupList":
		return c.eachVersion(ctx, doc.groupVersions()), nil
	}
	return nil, broken(q.op(), nonsense("discovery that is a %q", fault.Clean(doc.Kind)))
}

// askJSON decodes an answer that is 200 and JSON.
func (c *Client) askJSON(ctx context.Context, q request, to any) error {
	a, err := c.ask(ctx, q)
	if err != nil {
		return err
	}
	return q.decode(a, to)
}

func (q *request) decode(a *answer, to any) error {
	switch {
	case a.code != http.StatusOK:
		return q.refused(a)
	case a.media != mediaJSON:
		return broken(q.op(), nonsense("an answer of the type %s", fault.Clean(a.media)))
	}
	if err := json.Unmarshal(a.body, to); err != nil {
		return broken(q.op(), nonsense("%s", fault.Clean(err.Error())))
	}
	return nil
}

// discovered is what a path was answered, and what the server calls that answer: as long
// as it has not changed the server need not say it again.
type discovered struct {
	etag     string
	versions []groupVersion
}

type discoveredPaths struct {
	mu  sync.Mutex
	all map[string]discovered
}

func (p *discoveredPaths) of(path string) discovered {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[path]
}

func (p *discoveredPaths) note(path string, d discovered) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = make(map[string]discovered)
	}
	p.all[path] = d
}

// eachVersion asks for the resources of each version by itself.
func (c *Client) eachVersion(ctx context.Context, names []string) []groupVersion {
	all := make([]groupVersion, len(names))
	room := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for i, name := range names {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			all[i] = groupVersion{name: name}
			all[i].resources, all[i].err = c.resourcesOf(ctx, name)
		})
	}
	wg.Wait()
	return all
}

func (c *Client) resourcesOf(ctx context.Context, apiVersion string) ([]resource, error) {
	path, err := versionPath(apiVersion)
	if err != nil {
		return nil, err
	}
	q := request{method: http.MethodGet, path: path, accept: mediaJSON, limit: maxDiscovery}
	var list resourceList
	if err := c.askJSON(ctx, q, &list); err != nil {
		return nil, err
	}
	if list.Kind != "APIResourceList" {
		return nil, broken(q.op(), nonsense("discovery that is a %q", fault.Clean(list.Kind)))
	}
	return list.resources(), nil
}

func joinVersion(group, version string) string {
	if group == "" {
		return version
	}
	return group + "/" + version
}
