package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// StatusError is the error of a response whose status is not 2xx.
type StatusError struct {
	Code int
	Body string // at most a few kilobytes of it
}

func (e *StatusError) Error() string { return fmt.Sprintf("status %d: %s", e.Code, e.Body) }

// HasStatus reports whether err is a StatusError with this code.
func HasStatus(err error, code int) bool {
	var status *StatusError
	return errors.As(err, &status) && status.Code == code
}

const (
	maxAnswer    = 64 << 20
	maxErrorBody = 4 << 10
)

// Manifest is YAML to apply: the body of a server-side apply PATCH.
type Manifest []byte

// Request sends one request with in, unless nil, as its JSON body. It decodes the JSON
// response into out, unless nil; a *string gets any response unchanged. A PATCH is a
// JSON merge patch, unless in is a Manifest. Request makes tests short; it is not a
// client to be tested.
func Request(ctx context.Context, c *http.Client, method, url string, in, out any) error {
	var body io.Reader
	kind := "application/json"
	switch manifest, ok := in.(Manifest); {
	case ok:
		body, kind = bytes.NewReader(manifest), "application/apply-patch+yaml"
	case in != nil:
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%s %s: encode body: %w", method, url, err)
		}
		if body = bytes.NewReader(data); method == http.MethodPatch {
			kind = "application/merge-patch+json"
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, url, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", kind)
	}
	text, raw := out.(*string)
	if !raw {
		req.Header.Set("Accept", "application/json")
	}
	resp, err := c.Do(req)
	if err != nil {
		return err // names method and URL itself
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s %s: read answer: %w", method, url, err)
	}
	if raw {
		*text, out = string(data), nil
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

// Metric returns the value of one series of a program, written as in the exposition
// format: `name` or `name{label="value"}`.
func Metric(ctx context.Context, c *http.Client, base, series string) (float64, error) {
	var text string
	if err := Request(ctx, c, http.MethodGet, base+"/metrics", nil, &text); err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("%s/metrics has no series %s", base, series)
}
