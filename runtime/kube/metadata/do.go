package metadata

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// Outcome is how an action went.
type Outcome struct {
	Result gc.Result
	Object *gc.Object // of a patch that is Done: as the response says
	// Throttled says that the server wants less: it answered 429, or an error
	// with a time to wait for.
	Throttled  bool
	RetryAfter time.Duration
	// Webhook says that it failed because the server could not ask an admission
	// webhook: that says nothing of the server.
	Webhook bool
	Took    time.Duration
	Err     error // explains anything but Done and Gone
}

// Do carries out Delete, RemoveReferences, Unblock, RemoveFinalizer and FailPod.
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
	got, err := c.ask(ctx, q)
	if err != nil {
		return Outcome{Err: err}
	}
	defer c.touch(a.Object)
	switch {
	case got.code != http.StatusOK && got.code != http.StatusAccepted:
		return q.sortOut(got, a)
	case a.Verb == gc.Delete:
		if err := got.confirms(a.Object); err != nil {
			return Outcome{Err: broken(q.op(), err)}
		}
		return Outcome{Result: gc.Done}
	}
	object, err := got.object(a.Object)
	if err == nil && object.UID != a.Object.UID {
		err = nonsense("the patched object is another")
	}
	if err != nil {
		return Outcome{Err: broken(q.op(), err)}
	}
	return Outcome{Result: gc.Done, Object: object}
}

func (c *Client) requestFor(a gc.Action, namespaced bool) (request, error) {
	path, err := objectPath(a.Object, namespaced)
	if err != nil {
		return request{}, err
	}
	if a.Object.UID == "" {
		return request{}, refuse("an action on %s without a UID", fault.Clean(a.Object.Name))
	}
	if a.ResourceVersion == "" && (a.Verb == gc.Delete || a.Verb == gc.FailPod) {
		return request{}, refuse("a deletion of %s in whatever version", fault.Clean(a.Object.Name))
	}
	q := request{method: http.MethodPatch, path: path, query: "fieldManager=" + name,
		accept: acceptPartial, contentType: "application/json-patch+json"}
	switch a.Verb {
	case gc.Delete:
		q.method, q.query, q.contentType, q.body = http.MethodDelete, "", mediaJSON, deleteOptions(a)
	case gc.RemoveReferences:
		q.body = removeReferences(a)
	case gc.Unblock:
		q.body = unblock(a)
	case gc.RemoveFinalizer:
		q.body = removeFinalizer(a)
	case gc.FailPod:
		now, known := c.Time(time.Now())
		if !known {
			now = time.Now()
		}
		q.path += "/status"
		q.contentType, q.body = "application/strategic-merge-patch+json", failPod(a, now)
	default:
		return request{}, fmt.Errorf("do %s: %w", a.Verb, errors.ErrUnsupported)
	}
	return q, nil
}

// confirms says whether an answer with a good code is the API server's: it tells
// of success, or shows what is being deleted.
func (a *answer) confirms(o gc.Coordinates) error {
	if s := a.status(); s.success {
		return nil
	}
	_, err := a.object(o)
	return err
}

// sortOut says what an answer that is an error means for what was wanted.
func (q *request) sortOut(got *answer, a gc.Action) Outcome {
	f := q.refused(got)
	out := Outcome{Result: gc.Failed, Err: f, RetryAfter: f.retryAfter}
	switch s := &f.status; {
	case got.code == http.StatusNotFound && s.namesAbsent(a.Object):
		return Outcome{Result: gc.Gone}
	case s.failure && s.refusal(), got.code == http.StatusForbidden:
		// Before 429: a webhook that says so speaks for itself, and must not slow all others.
		out.Result, out.RetryAfter = gc.Forbidden, 0
	case s.failure && s.unadmitted():
		out.Webhook, out.RetryAfter = true, 0
	case got.code == http.StatusTooManyRequests, got.code/100 == 5 && f.retryAfter > 0:
		out.Throttled, out.Result = true, gc.TooMany
	case got.code == http.StatusConflict && s.failure:
		out.Result = gc.Conflict
	case got.code == http.StatusUnprocessableEntity && s.failure && s.name == "" && q.method == http.MethodPatch:
		// A test of the patch, or a place that is not there any more. What a
		// validation finds names the object.
		out.Result = gc.Conflict
	}
	return out
}
