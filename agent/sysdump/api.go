package sysdump

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// requestTime bounds one request. A log can have several MiB.
const requestTime = time.Minute

// api reads from the API server. It sends nothing but GET requests.
type api struct {
	client    *http.Client
	base      *url.URL
	namespace string
}

func newAPI(config *rest.Config, namespace string) (*api, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return &api{client: client, base: base, namespace: namespace}, nil
}

// get returns the answer to a request, up to maxFile+1 bytes of it. It refuses a path that names
// Secrets.
func (a *api) get(ctx context.Context, query url.Values, path ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	u := a.base.JoinPath(path...)
	if slices.Contains(strings.Split(u.Path, "/"), "secrets") {
		return nil, errors.New("not asked: Secrets are never read") // also if an object has this name
	}
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxFile+1))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		var status struct{ Message string }
		if json.Unmarshal(data, &status) != nil || status.Message == "" {
			status.Message = resp.Status
		}
		return nil, fmt.Errorf("the API server says: %s", status.Message)
	}
	return data, nil
}

func (a *api) object(ctx context.Context, query url.Values, path ...string) (object, error) {
	data, err := a.get(ctx, query, path...)
	if err != nil {
		return nil, err
	}
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return o, nil
}

// core and apis return paths in the namespace: of the core group, and of another group.
func (a *api) core(path ...string) []string {
	return append([]string{"api/v1/namespaces", a.namespace}, path...)
}

func (a *api) apis(group string, path ...string) []string {
	return append([]string{"apis", group, "namespaces", a.namespace}, path...)
}
