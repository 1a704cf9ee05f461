package metadata

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/ebb-agent/ebb/runtime/kube/conn"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// Options has the limits of a Client. Zero fields mean the defaults.
type Options struct {
	Timeout time.Duration // of one request that is not a watch. Default 30s.
}

// name identifies the client at the API server: in its logs, and as the manager of the fields
// that the client changes.
const name = "ebb-controller"

// Client sends requests to one API server. It is safe for concurrent use.
//
// Requests end after 30 s by default. Watches share one HTTP/2 connection. Each other request has
// an HTTP/1.1 connection to itself, and up to 64 of those are kept.
type Client struct {
	base    string // with a path if there is one, without a slash at its end
	calls   http.RoundTripper
	streams http.RoundTripper
	drop    []func()
	lists   chan struct{} // slots of types that are listed
	opens   chan struct{} // slots of watches that are opened
	timeout time.Duration // of one request that is not a watch
	timing  timing

	clock      clock
	continuity continuity
	discovered sync.Map // by path, the last [discovered]
	alike      atomic.Pointer[alike]
	sights     sights

	remoteMu    sync.Mutex
	remote      versions // last known
	remoteKnown bool
}

// timing has the durations that only tests change.
type timing struct {
	minPause, maxPause time.Duration // between attempts
	settled            time.Duration // a stream that lived this long was a success
	silence            time.Duration // of a list, until it gives up its slot
	idle               time.Duration // of a watch, until it is restarted; bookmarks come about every minute
	watchLife          time.Duration // at least, and twice that at most
	spread             time.Duration // over which lists after an absence begin
}

// How many types are listed, and how many watches are opened, at the same time. A list that falls
// silent no longer counts.
const (
	maxLists = 16
	maxOpens = 8
)

const maxPause = 30 * time.Second

// Limits of what is read, in bytes.
const (
	maxObject    = 16 << 20 // one object in a list or a watch; 3 MiB exist
	maxAnswer    = 4 << 20  // an answer about one object
	maxDiscovery = 32 << 20
)

// New returns a client. It sends no request. It uses the address, credentials, TLS, proxy and
// wrappers of config, but not its limits and content types.
func New(config *rest.Config, options Options) (*Client, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	base.RawQuery, base.Fragment, base.User = "", "", nil
	c := &Client{
		base: strings.TrimRight(base.String(), "/"), timeout: cmp.Or(max(options.Timeout, 0), 30*time.Second), lists: make(chan struct{}, maxLists),
		opens: make(chan struct{}, maxOpens), sights: sights{mu: make(chan struct{}, 1)},
		timing: timing{minPause: 250 * time.Millisecond, maxPause: maxPause, settled: 5 * time.Second,
			silence: time.Second, idle: 90 * time.Second, watchLife: 5 * time.Minute, spread: 2 * time.Second},
		continuity: continuity{after: awayAfter},
	}
	if c.calls, err = c.connect(config, "http/1.1"); err == nil {
		c.streams, err = c.connect(config, "h2", "http/1.1")
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return c, nil
}

// Close closes the idle connections.
func (c *Client) Close() {
	for _, drop := range c.drop {
		drop()
	}
}

// request is one request.
type request struct {
	method, path, query string
	accept              string
	body                []byte
	contentType         string
	limit               int64
	ifNoneMatch         string      // the ETag of the known answer
	held                func() bool // set if there is a body; true: do not send the request
}

// op names a request in errors.
func (q *request) op() string { return q.method + " " + fault.Clean(q.path) }

// answer is a response with any status.
type answer struct {
	code       int
	media      string
	body       []byte
	etag       string
	retryAfter time.Duration
}

// ask sends a request and reads the whole answer.
func (c *Client) ask(ctx context.Context, q request) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	sent := time.Now()
	resp, err := c.send(ctx, c.calls, q)
	if err != nil {
		return nil, broken(q.op(), err)
	}
	defer resp.Body.Close()
	if q.builtIn() {
		c.clock.hear(sent, resp)
	}
	a, err := readAnswer(resp, q.limit)
	if err != nil {
		return nil, broken(q.op(), err)
	}
	return a, nil
}

// builtIn reports whether the kube-apiserver itself answers: no other API server can serve these
// groups.
func (q *request) builtIn() bool {
	groups := []string{"/api/v1/", "/apis/batch/", "/apis/certificates.k8s.io/", "/apis/coordination.k8s.io/"}
	return slices.ContainsFunc(groups, func(prefix string) bool { return strings.HasPrefix(q.path, prefix) })
}

// send sends a request. The caller reads and closes the body. It does not use an http.Client,
// which would follow redirects: a token must not be sent elsewhere.
func (c *Client) send(ctx context.Context, rt http.RoundTripper, q request) (*http.Response, error) {
	url := c.base + q.path
	if q.query != "" {
		url += "?" + q.query
	}
	var body io.Reader
	if q.body != nil {
		body = strings.NewReader(string(q.body))
	}
	req, err := http.NewRequestWithContext(ctx, q.method, url, body)
	if err != nil {
		return nil, err
	}
	if q.held != nil {
		q.hold(req)
	}
	req.Header["Accept"] = []string{q.accept}
	if q.ifNoneMatch != "" {
		req.Header["If-None-Match"] = []string{q.ifNoneMatch}
	}
	if q.body != nil {
		req.Header["Content-Type"] = []string{q.contentType}
	}
	resp, err := rt.RoundTrip(req)
	if err != nil && context.Cause(ctx) != nil && !errors.Is(context.Cause(ctx), context.Canceled) {
		err = context.Cause(ctx)
	}
	return resp, err
}

func readAnswer(resp *http.Response, limit int64) (*answer, error) {
	if limit == 0 {
		limit = maxAnswer
	}
	a := &answer{code: resp.StatusCode, media: media(resp), etag: resp.Header.Get("ETag")}
	a.retryAfter = conn.RetryAfter(resp.Header, maxPause)
	var err error
	r := io.LimitReader(resp.Body, limit+1)
	if n := resp.ContentLength; n >= 0 && n <= limit {
		a.body = make([]byte, n)
		_, err = io.ReadFull(r, a.body)
	} else {
		a.body, err = io.ReadAll(r)
	}
	if err != nil {
		return nil, err
	}
	if int64(len(a.body)) > limit {
		return nil, fault.Nonsense("an answer of more than %d MiB", limit>>20)
	}
	return a, nil
}

// Content types that are supported.
const (
	mediaProtobuf = "application/vnd.kubernetes.protobuf"
	mediaJSON     = "application/json"
)

// media is the content type without its parameters.
func media(resp *http.Response) string {
	t, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return strings.TrimSpace(t)
}

// status returns the Status in an answer, or the zero value if there is none.
func (a *answer) status() fault.Status {
	switch a.media {
	case mediaProtobuf:
		if o, err := unwrap(a.body); err == nil && string(o.kind) == "Status" {
			s, _ := protoStatus(o.raw)
			return s
		}
	case mediaJSON:
		return fault.ParseStatus(a.body)
	}
	return fault.Status{}
}

// refused turns an error response into an error.
func (q *request) refused(a *answer) *fault.Answer {
	text := a.body
	if a.media == mediaProtobuf {
		text = nil
	}
	f := fault.Refused(q.op(), a.code, a.status(), text)
	f.RetryAfter = max(a.retryAfter, pause(f.Status))
	switch {
	case f.Kind == ErrUnauthorized:
		f.Hint = "the credentials have expired or are of another cluster"
	case f.Kind == ErrForbidden:
	case expired(f.Status):
		f.Kind = errExpired
	case a.code == http.StatusNotFound && f.Status.Details.Name == "", a.code == http.StatusMethodNotAllowed, a.code == http.StatusNotAcceptable:
		f.Kind, f.Hint = ErrNotServed, "the type has gone, or its version is not served any more"
	case a.code/100 == 3:
		f.Kind, f.Hint = ErrMalformed, "a redirect, which is not followed: is that the API server's address?"
	case a.code/100 == 4 && a.code != http.StatusTooManyRequests:
		f.Kind = ErrRefused
	}
	return f
}

// Send sends any request in JSON, and decodes the answer into to. content and to may be nil. A
// PATCH is a server-side apply.
func (c *Client) Send(ctx context.Context, method, path string, query url.Values, content, to any) (err error) {
	q := request{method: method, path: path, query: query.Encode(), accept: mediaJSON}
	if method != http.MethodGet {
		q.limit = maxDiscovery // the answer to a deletion lists what was deleted
	}
	if content != nil {
		if q.body, err = json.Marshal(content); err != nil {
			return err
		}
		if q.contentType = mediaJSON; method == http.MethodPatch {
			q.contentType = "application/apply-patch+yaml" // JSON is YAML, too
		}
	}
	return c.askJSON(ctx, q, to)
}

// askJSON sends a request, and decodes the answer in JSON into to. If to is nil, the answer is
// not decoded.
func (c *Client) askJSON(ctx context.Context, q request, to any) error {
	a, err := c.ask(ctx, q)
	if err != nil {
		return err
	}
	return q.decode(a, to)
}

func (q *request) decode(a *answer, to any) error {
	if a.code/100 != 2 {
		return q.refused(a)
	}
	if to == nil {
		return nil
	}
	if err := json.Unmarshal(a.body, to); err != nil {
		return broken(q.op(), fault.Nonsense("an answer of the type %s: %v", fault.Clean(a.media), err))
	}
	return nil
}

// Answered returns the status code of the response that an error is about; 0: there was none.
func Answered(err error) int {
	var p *fault.Answer
	if errors.As(err, &p) {
		return p.Code
	}
	return 0
}
