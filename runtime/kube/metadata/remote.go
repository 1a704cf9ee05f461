package metadata

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// versions says of versions of groups whether another API server serves them. A nil one
// is of a cluster without aggregation.
type versions map[string]bool

// registration is the group of the aggregation layer itself, which announces nobody else.
const registration = "apiregistration.k8s.io"

// has says whether another API server serves a version, as far as is known: one of which
// nothing is known is treated as if.
func (v versions) has(name string) bool {
	remote, known := v[name]
	return v != nil && gc.GroupOf(name) != registration && (remote || !known)
}

// remoteOf settles who serves what was discovered. If nobody says, what was known holds.
// What is discovered and announced by nobody, asked for afterwards, is the kube-apiserver's
// own: it passes on only what is announced. That is so for new definitions, and while
// API servers of two versions announce in turn. What was another's stays so.
func (c *Client) remoteOf(ctx context.Context, all []groupVersion, remote versions, err error) (versions, error) {
	if err == nil && remote != nil && slices.ContainsFunc(all, func(gv groupVersion) bool {
		_, known := remote[gv.name]
		return !known && gc.GroupOf(gv.name) != registration
	}) {
		remote, err = c.remoteVersions(ctx)
	}
	c.remoteMu.Lock()
	defer c.remoteMu.Unlock()
	switch {
	case err != nil && c.remoteKnown:
		return c.remote, err
	case err != nil:
		return versions{}, err
	}
	for _, gv := range all {
		if _, known := remote[gv.name]; remote != nil && !known {
			remote[gv.name] = c.remote[gv.name]
		}
	}
	c.remote, c.remoteKnown = remote, true
	return remote, nil
}

// remoteVersions asks who serves what.
func (c *Client) remoteVersions(ctx context.Context) (versions, error) {
	q := request{method: http.MethodGet, path: "/apis/" + registration + "/v1/apiservices", accept: mediaJSON, limit: maxDiscovery}
	var list struct {
		Kind  string `json:"kind"`
		Items []struct {
			Spec struct {
				Group   string    `json:"group"`
				Version string    `json:"version"`
				Service *struct{} `json:"service"`
			} `json:"spec"`
		} `json:"items"`
	}
	err := c.askJSON(ctx, q, &list)
	if errors.Is(err, ErrNotServed) {
		return nil, nil // no aggregation here
	}
	if err == nil && list.Kind != "APIServiceList" {
		err = broken(q.op(), fault.Nonsense("a %q", fault.Clean(list.Kind)))
	}
	if err != nil {
		return nil, err
	}
	remote := make(versions, len(list.Items))
	for _, s := range list.Items {
		remote[schema.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version}.String()] = s.Spec.Service != nil
	}
	return remote, nil
}
