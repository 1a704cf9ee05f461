package metadata

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
)

// Send asks for anything, in JSON, and reads the answer into to, which may be nil. A PATCH
// is a server-side apply.
func (c *Client) Send(ctx context.Context, method, path string, query url.Values, content, to any) (err error) {
	q := request{method: method, path: path, query: query.Encode(), accept: mediaJSON}
	if method != http.MethodGet {
		q.limit = maxDiscovery // what is deleted is listed
	}
	if content != nil {
		if q.body, err = json.Marshal(content); err != nil {
			return err
		}
		if q.contentType = mediaJSON; method == http.MethodPatch {
			q.contentType = "application/apply-patch+yaml" // of which JSON is a part
		}
	}
	a, err := c.ask(ctx, q)
	switch {
	case err != nil:
		return err
	case a.code/100 != 2:
		return q.refused(a)
	case to == nil:
		return nil
	}
	if err := json.Unmarshal(a.body, to); err != nil {
		return broken(q.op(), nonsense("%s", err))
	}
	return nil
}

// Answered is the code of the answer that an error is about; 0: there was none.
func Answered(err error) int {
	var p *problem
	if errors.As(err, &p) {
		return p.code
	}
	return 0
}
