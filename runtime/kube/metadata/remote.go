package metadata

import (
	"context"
	"errors"
	"net/http"

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
	return v != nil && groupOf(name) != registration && (remote || !known)
}

// remoteOf settles who serves what was discovered. Definitions may be discovered before
// they are announced: then it is asked once more. If nobody says, what was known holds.
func (c *Client) remoteOf(ctx context.Context, all []groupVersion, remote versions, err error) (versions, error) {
	for _, gv := range all {
		if _, known := remote[gv.name]; err == nil && remote != nil && !known && groupOf(gv.name) != registration {
			if again, err := c.remoteVersions(ctx); err == nil {
				remote = again
			}
			break
		}
	}
	c.remoteMu.Lock()
	defer c.remoteMu.Unlock()
	if err == nil {
		c.remote, c.remoteKnown = remote, true
		return remote, nil
	}
	if c.remoteKnown {
		return c.remote, err
	}
	return versions{}, err
}

// remoteVersions asks who serves what.
func (c *Client) remoteVersions(ctx context.Context) (versions, error) {
	q := request{method: http.MethodGet, path: "/apis/" + registration + "/v1/apiservices", accept: mediaJSON, limit: maxDiscovery}
	var list apiServiceList
	err := c.askJSON(ctx, q, &list)
	if errors.Is(err, ErrNotServed) {
		return nil, nil // no aggregation here
	}
	if err == nil && list.Kind != "APIServiceList" {
		err = broken(q.op(), nonsense("a %q", fault.Clean(list.Kind)))
	}
	if err != nil {
		return nil, err
	}
	remote := make(versions, len(list.Items))
	for _, s := range list.Items {
		remote[joinVersion(s.Spec.Group, s.Spec.Version)] = s.Spec.Service != nil
	}
	return remote, nil
}
