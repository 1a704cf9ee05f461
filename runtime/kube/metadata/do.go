package metadata

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// Outcome is the result of an action.
type Outcome struct {
	Result gc.Result
	Object *gc.Object // of a patch that is Done: from the response
	// Throttled means that the server asks for fewer requests: it answered 429, or a 5xx with a
	// time to wait.
	Throttled  bool
	RetryAfter time.Duration
	// OfObject means that the failure shows nothing about the API server: it refused this object, for
	// instance as invalid, or could not call an admission webhook.
	OfObject bool
	Took     time.Duration
	Err      error // set for every Result but Done and Gone
}

// Do carries out Delete, RemoveReferences, Unblock, RemoveFinalizer and FailPod.
//
// Every request carries the UID, as a precondition or as a test of the patch. A patch also tests
// uid, name, kind and apiVersion of each reference at its index. The Outcome of a patch that is
// Done has the object from the server's response. Gone is only returned for a NotFound that names
// that very object. Do has no rate limit: the caller limits the rate.
func (c *Client) Do(ctx context.Context, a gc.Action, namespaced bool) Outcome {
	began := time.Now()
	out := c.do(ctx, a, namespaced)
	out.Took = time.Since(began)
	return out
}

func (c *Client) do(ctx context.Context, a gc.Action, namespaced bool) Outcome {
	q, err := c.requestFor(a, namespaced)
	if err != nil {
		return Outcome{Err: err}
	}
	ctx, stop := c.whileSure(ctx, &q)
	defer stop()
	got, err := c.ask(ctx, q)
	switch {
	case errors.Is(context.Cause(ctx), errUnsure), errors.Is(err, errUnsure): // the answer to half a request
		return Outcome{Result: gc.TooMany, Err: errUnsure}
	case err != nil:
		return Outcome{Err: err}
	}
	defer c.continuity.touch(inAllVersions(a.Object.APIVersion, a.Object.Resource))
	switch {
	case got.code != http.StatusOK && got.code != http.StatusAccepted:
		return q.sortOut(got, a)
	case a.Verb == gc.Delete && got.status().Status == "Success":
		return Outcome{Result: gc.Done}
	}
	// Any other answer with a success code is the API server's only if it has the object that is
	// being deleted or was patched.
	object, err := got.object(a.Object, partialKind)
	if err == nil && a.Verb != gc.Delete && object.UID != a.Object.UID {
		err = fault.Nonsense("the patched object is another")
	}
	switch {
	case err != nil:
		return Outcome{Err: broken(q.op(), err)}
	case a.Verb == gc.Delete:
		object = nil
	}
	return Outcome{Result: gc.Done, Object: object}
}

// errUnsure: the request was not sent, because the API server was away while it waited for
// a connection.
var errUnsure = errors.New("the API server was away")

// whileSure returns a context in which a request is sent only while the decision behind it may
// still be acted on. To get a connection may take until the API server, or another history of
// etcd, is back. HTTP/2 checks the context before it writes. HTTP/1 writes the headers as soon as
// it has a connection. There the body ends with an error, and the server does not carry out half
// a request.
func (c *Client) whileSure(ctx context.Context, q *request) (context.Context, func()) {
	var held atomic.Bool // stays true: the decision is from before the absence
	q.held = func() bool {
		if sure, _ := c.Sure(); !sure {
			held.Store(true)
		}
		return held.Load()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		if q.held() {
			cancel(errUnsure)
		}
	}}), func() { cancel(nil) }
}

// hold makes the body of a request end with an error if the request must not be sent.
func (q *request) hold(req *http.Request) {
	body := func() io.ReadCloser { return &heldBody{bytes.NewReader(q.body), q.held} }
	req.Body, req.GetBody = body(), func() (io.ReadCloser, error) { return body(), nil }
}

type heldBody struct {
	from io.Reader
	held func() bool
}

func (b *heldBody) Read(p []byte) (int, error) {
	if b.held() {
		return 0, errUnsure
	}
	return b.from.Read(p)
}

func (b *heldBody) Close() error { return nil }

func (c *Client) requestFor(a gc.Action, namespaced bool) (request, error) {
	path, err := objectPath(a.Object, namespaced)
	if err != nil {
		return request{}, err
	}
	if a.Object.UID == "" {
		return request{}, refuse("an action on %s without a UID", fault.Clean(a.Object.Name))
	}
	if a.ResourceVersion == "" && (a.Verb == gc.Delete || a.Verb == gc.FailPod) {
		return request{}, refuse("a deletion of %s without a resourceVersion", fault.Clean(a.Object.Name))
	}
	q := request{method: http.MethodPatch, path: path, query: "fieldManager=" + name,
		accept: acceptPartial, contentType: "application/json-patch+json"}
	var content any
	switch a.Verb {
	case gc.Delete:
		q.method, q.query, q.contentType, content = http.MethodDelete, "", mediaJSON, deleteOptions(a)
	case gc.RemoveReferences:
		content = removeReferences(a)
	case gc.Unblock:
		content = unblock(a)
	case gc.RemoveFinalizer:
		content = removeFinalizer(a)
	case gc.FailPod:
		now, known := c.Time(time.Now())
		if !known {
			now = time.Now()
		}
		q.path += "/status"
		q.contentType, content = "application/strategic-merge-patch+json", failPod(a, now)
	default:
		return request{}, fmt.Errorf("do %s: %w", a.Verb, errors.ErrUnsupported)
	}
	q.body, err = json.Marshal(content)
	return q, err
}

// sortOut returns the Outcome of an action whose answer is an error.
func (q *request) sortOut(got *answer, a gc.Action) Outcome {
	f := q.refused(got)
	out := Outcome{Result: gc.Failed, Err: f, RetryAfter: f.RetryAfter}
	switch s := f.Status; {
	case got.code == http.StatusNotFound && namesAbsent(s, a.Object):
		return Outcome{Result: gc.Gone}
	case s.Failed() && s.Inadmissible(), got.code == http.StatusForbidden:
		// This comes before 429: a 429 of a webhook is about the webhook, and must not slow all
		// other actions.
		out.Result, out.RetryAfter = gc.Forbidden, 0
	case s.Failed() && unadmitted(s):
		out.OfObject, out.RetryAfter = true, 0
	case got.code == http.StatusTooManyRequests, got.code/100 == 5 && f.RetryAfter > 0:
		out.Throttled, out.Result = true, gc.TooMany
	case got.code == http.StatusConflict && s.Failed():
		out.Result = gc.Conflict
	case got.code == http.StatusUnprocessableEntity && s.Failed() && s.Details.Name == "" && q.method == http.MethodPatch:
		// A test of the patch failed, or an index no longer exists. An error of validation names
		// the object.
		out.Result = gc.Conflict
	case s.Failed() && (got.code == http.StatusUnprocessableEntity || got.code == http.StatusMethodNotAllowed):
		out.OfObject = true
	}
	return out
}

// Notice is an Event about an object.
type Notice struct {
	Object  gc.Coordinates // Resource is not needed
	Type    string         // "Warning" or "Normal"; default Warning
	Reason  string         // one word, for machines
	Message string
}

// Bounds of the fields of an event (k8s.io/kubernetes/pkg/apis/core/validation).
const (
	maxWord    = 128
	maxMessage = 1024
)

// Warn creates an event about an object, in its namespace or in "default".
func (c *Client) Warn(ctx context.Context, n Notice) error {
	in := cmp.Or(n.Object.Namespace, "default")
	path, err := Selection{Namespace: in}.path(gc.Type{APIVersion: "events.k8s.io/v1", Resource: "events", Namespaced: true})
	if err == nil {
		err = c.Send(ctx, http.MethodPost, path, url.Values{"fieldManager": {name}}, n.event(in, time.Now()), nil)
	}
	if err != nil {
		return fmt.Errorf("create event: %w", err)
	}
	return nil
}

func (n *Notice) event(in string, now time.Time) map[string]any {
	instance := name
	if host, err := os.Hostname(); err == nil {
		instance += "-" + host
	}
	o := n.Object
	return map[string]any{
		"apiVersion": "events.k8s.io/v1", "kind": "Event",
		"metadata":            map[string]any{"generateName": name + "-", "namespace": in},
		"eventTime":           now.UTC().Format(metav1.RFC3339Micro),
		"reportingController": name, "reportingInstance": cut(instance, maxWord),
		"type": cmp.Or(n.Type, "Warning"), "reason": cut(n.Reason, maxWord), "action": cut(n.Reason, maxWord),
		"note": cut(n.Message, maxMessage),
		"regarding": map[string]any{"apiVersion": o.APIVersion, "kind": cascade.BaseKind(o.Kind), "namespace": o.Namespace,
			"name": o.Name, "uid": o.UID},
	}
}

// cut shortens s to n bytes at most, without splitting a character.
func cut(s string, n int) string {
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}
