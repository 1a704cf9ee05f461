package uninstall

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"k8s.io/client-go/rest"
)

const (
	requestTime = 30 * time.Second
	attempts    = 4
	pageSize    = 250
	maxPage     = 96 << 20 // annotations alone may be 256 KiB each
	maxAnswer   = 4 << 20
	maxText     = 512 // of what others say
)

// api asks an API server, in JSON.
type api struct {
	client http.Client
	base   string
}

func newAPI(config *rest.Config) (*api, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	a := &api{client: *client, base: strings.TrimRight(base.String(), "/")}
	a.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return a, nil
}

func (a *api) close() { a.client.CloseIdleConnections() }

// refusal is an answer that is an error.
type refusal struct {
	code  int
	text  string
	pause time.Duration // asked for by the other side
}

func (r *refusal) Error() string { return fmt.Sprintf("%d: %s", r.code, r.text) }

// is tells whether err is an answer with that code.
func is(err error, code int) bool {
	var r *refusal
	return errors.As(err, &r) && r.code == code
}

// request is one question; zero fields are left out.
type request struct {
	method, path string
	query        url.Values
	accept       string
	body         any
	limit        int64
	once         bool // no second attempt
}

// do asks until there is an answer, a few times at most, and decodes it into out,
// which is a *[]byte for one that is not JSON.
func (a *api) do(ctx context.Context, q request, out any) error {
	pause := 250 * time.Millisecond
	for attempt := 1; ; attempt++ {
		err := a.once(ctx, q, out)
		var r *refusal
		answered := errors.As(err, &r)
		switch {
		case err == nil, ctx.Err() != nil:
			return err
		case answered && r.code != http.StatusTooManyRequests && r.code/100 != 5, attempt == attempts, q.once:
			return fmt.Errorf("%s %s: %w", q.method, clean(q.path), err)
		case answered:
			pause = max(pause, min(r.pause, 10*time.Second))
		}
		if !sleep(ctx, pause) {
			return err
		}
		pause *= 2
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (a *api) once(ctx context.Context, q request, out any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	var body io.Reader
	if q.body != nil {
		b, err := json.Marshal(q.body)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	to := a.base + q.path
	if len(q.query) > 0 {
		to += "?" + q.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, q.method, to, body)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	if q.accept != "" {
		r.Header.Set("Accept", q.accept)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := a.client.Do(r)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // the caller says what was asked
		}
		return err
	}
	defer resp.Body.Close()
	return take(resp, q.limit, out)
}

func take(resp *http.Response, limit int64, out any) error {
	if limit == 0 {
		limit = maxAnswer
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return err
	case int64(len(data)) > limit:
		return fmt.Errorf("an answer of more than %d MiB", limit>>20)
	case resp.StatusCode/100 != 2:
		return refused(resp, data)
	}
	switch to := out.(type) {
	case nil:
		return nil
	case *[]byte:
		*to = data
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("an answer that makes no sense: %s", clean(err.Error()))
	}
	return nil
}

// refused reads a Status, or whatever else the answer is.
func refused(resp *http.Response, data []byte) error {
	r := &refusal{code: resp.StatusCode}
	var status struct{ Kind, Message string }
	if json.Unmarshal(data, &status) == nil && status.Kind == "Status" {
		r.text = clean(status.Message)
	} else if r.text = clean(string(data)); r.text == "" {
		r.text = http.StatusText(r.code)
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 && s < 3600 {
		r.pause = time.Duration(s) * time.Second
	}
	return r
}

// clean makes one printable line of what others say.
func clean(s string) string {
	var b strings.Builder
	for word := range strings.FieldsSeq(s) {
		if b.Len() >= maxText {
			break
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		for _, r := range word {
			if !unicode.IsPrint(r) {
				r = '�'
			}
			if b.WriteRune(r); b.Len() >= maxText {
				b.WriteString("…")
				break
			}
		}
	}
	return b.String()
}

// metadata is what is read of objects.
type metadata struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace"`
	UID               string            `json:"uid"`
	Labels            map[string]string `json:"labels"`
	DeletionTimestamp string            `json:"deletionTimestamp"`
	Finalizers        []string          `json:"finalizers"`
	OwnerReferences   []struct {
		Kind, Name, UID string
		Controller      bool
	} `json:"ownerReferences"`
}

const acceptMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// list hands out the metadata of all objects at a path, page by page. A list that
// went stale between two pages begins anew: reset says so.
func (a *api) list(ctx context.Context, path string, query url.Values, reset func(), each func(metadata)) error {
	for attempt := 1; ; attempt++ {
		reset()
		err := a.pages(ctx, path, query, each)
		if !is(err, http.StatusGone) || attempt == attempts {
			return err
		}
	}
}

func (a *api) pages(ctx context.Context, path string, query url.Values, each func(metadata)) error {
	q := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for k, v := range query {
		q[k] = v
	}
	for {
		var page struct {
			Metadata struct{ Continue string }
			Items    []struct{ Metadata metadata }
		}
		err := a.do(ctx, request{method: http.MethodGet, path: path, query: q, accept: acceptMetadata, limit: maxPage}, &page)
		if err != nil {
			return err
		}
		for i := range page.Items {
			each(page.Items[i].Metadata)
		}
		if page.Metadata.Continue == "" {
			return nil
		}
		q.Set("continue", page.Metadata.Continue)
	}
}
