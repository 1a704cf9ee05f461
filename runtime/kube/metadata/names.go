package metadata

import (
	"context"
	"net/http"

	"github.com/ebb-agent/ebb/runtime/kube/naming"
)

// Names are what people call the types that are served.
func (c *Client) Names(ctx context.Context) ([]naming.Resource, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	// A redirect is an answer like any other: a token must not go elsewhere.
	h := &http.Client{Transport: c.calls, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return naming.Read(ctx, h, c.base)
}
