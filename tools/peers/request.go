package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// StatusError is an answer that is not a 2xx.
type StatusError struct {
	Code int
	Body string // at most a few kilobytes of it
}

func (e *StatusError) Error() string { return fmt.Sprintf("status %d: %s", e.Code, e.Body) }

const (
	maxAnswer    = 64 << 20
	maxErrorBody = 4 << 10
)

// Request sends one request with in, if not nil, as its JSON body, and reads
// the JSON answer into out, if not nil. A PATCH is a JSON merge patch. It is
// for tests that want few words, not for what they test.
func Request(ctx context.Context, c *http.Client, method, url string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%s %s: encode body: %w", method, url, err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, url, err)
	}
	req.Header.Set("Accept", "application/json")
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
		if method == http.MethodPatch {
			req.Header.Set("Content-Type", "application/merge-patch+json")
		}
	}
	resp, err := c.Do(req)
	if err != nil {
		return err // says method and URL itself
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s %s: read answer: %w", method, url, err)
	}
	if resp.StatusCode/100 != 2 {
		text := strings.TrimSpace(string(data[:min(len(data), maxErrorBody)]))
		return fmt.Errorf("%s %s: %w", method, url, &StatusError{Code: resp.StatusCode, Body: text})
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%s %s: decode answer: %w", method, url, err)
	}
	return nil
}
