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

// versions has, by group version, whether another API server serves it. It is nil in a cluster
// without aggregation.
type versions map[string]bool

// registration is the group of the aggregation layer itself. No APIService announces it, and no
// other API server serves it.
const registration = "apiregistration.k8s.io"

// core is the version of Pods, Nodes and PersistentVolumes. Each kube-apiserver announces it as its own
// (k8s.io/kube-aggregator, autoregister), and a restore of etcd shows in it.
const core = "v1"

// has reports whether another API server serves a version, as far as is known. An unknown version
// is treated as if one did, except core.
func (v versions) has(name string) bool {
	remote, known := v[name]
	return v != nil && gc.GroupOf(name) != registration && (remote || !known && name != core)
}

// remoteOf decides which of the discovered versions other API servers serve. If the APIServices
// cannot be listed, the last known state is used.
//
// A discovered version may have no APIService in a list that was requested afterwards. Then the
// kube-apiserver serves it itself, because it forwards only what an APIService announces. That is
// so for new definitions, and while API servers of two versions announce in turn. A version that
// was another API server's stays so.
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

// remoteVersions lists the APIServices. It returns nil in a cluster without aggregation.
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
