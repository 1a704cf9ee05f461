package metadata

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ebb-agent/ebb/policy/gc"
)

var theObject = gc.Coordinates{APIVersion: "example.com/v1", Kind: "CronTab", Resource: "crontabs", Namespace: "n", Name: "o1", UID: "uid-1"}

func proto(kind string, m marshaler) answering {
	return func(t *testing.T, w http.ResponseWriter, r *http.Request) {
		code(http.StatusOK, mediaProtobuf, string(envelope(t, kind, m)))(t, w, r)
	}
}

func failed(code int32, reason, message string, details *metav1.StatusDetails) *metav1.Status {
	return &metav1.Status{Status: "Failure", Code: code, Reason: metav1.StatusReason(reason), Message: message, Details: details}
}

var (
	aboutIt = &metav1.StatusDetails{Name: "o1", Group: "example.com", Kind: "crontabs"}
	webhook = failed(404, "NotFound", `admission webhook "w.example.com" denied the request: no`, aboutIt)
)

// What the answers that a real API server does not give mean.
func TestAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		answer answering
		state  gc.State
		delete gc.Result
		patch  gc.Result
		err    error
	}{
		"the object":         {proto("PartialObjectMetadata", named(1)), gc.Exists, gc.Done, gc.Done, nil},
		"another object":     {proto("PartialObjectMetadata", named(2)), gc.Unknown, gc.Failed, gc.Failed, ErrMalformed},
		"not found":          {statusAnswer(notFound("crontabs", "example.com", "o1")), gc.Absent, gc.Gone, gc.Gone, nil},
		"another not found":  {statusAnswer(notFound("crontabs", "example.com", "o2")), gc.Unknown, gc.Failed, gc.Failed, ErrRefused},
		"a bare path":        {code(404, "text/plain", "404 page not found"), gc.Unknown, gc.Failed, gc.Failed, ErrNotServed},
		"no such resource":   {statusAnswer(failed(404, "NotFound", "the server could not find the requested resource", &metav1.StatusDetails{})), gc.Unknown, gc.Failed, gc.Failed, ErrNotServed},
		"a 404 in HTML":      {code(404, "text/html", "<html>NotFound</html>"), gc.Unknown, gc.Failed, gc.Failed, ErrNotServed},
		"a webhook's 404":    {statusAnswer(webhook), gc.Unknown, gc.Forbidden, gc.Forbidden, ErrRefused},
		"a webhook's 400":    {statusAnswer(failed(400, "", `admission webhook "w" denied the request: no`, nil)), gc.Unknown, gc.Forbidden, gc.Forbidden, ErrRefused},
		"a webhook's 429":    {statusAnswer(failed(429, "TooManyRequests", `admission webhook "w" denied the request: later`, &metav1.StatusDetails{RetryAfterSeconds: 60})), gc.Unknown, gc.Forbidden, gc.Forbidden, ErrUnavailable},
		"a policy's refusal": {statusAnswer(failed(422, "Invalid", `crontabs.example.com "o1" is forbidden: ValidatingAdmissionPolicy 'p' denied request: no`, aboutIt)), gc.Unknown, gc.Forbidden, gc.Forbidden, ErrRefused},
		"forbidden":          {statusAnswer(failed(403, "Forbidden", `crontabs "o1" is forbidden: User "u" cannot`, aboutIt)), gc.Unknown, gc.Forbidden, gc.Forbidden, ErrForbidden},
		"a bare 403":         {code(403, "text/html", "<html>"), gc.Unknown, gc.Forbidden, gc.Forbidden, ErrForbidden},
		"unauthorized":       {statusAnswer(failed(401, "Unauthorized", "Unauthorized", nil)), gc.Unknown, gc.Failed, gc.Failed, ErrUnauthorized},
		"conflict":           {statusAnswer(failed(409, "Conflict", "Precondition failed: UID", aboutIt)), gc.Unknown, gc.Conflict, gc.Conflict, ErrRefused},
		"a 409 in HTML":      {code(409, "text/html", "<html>"), gc.Unknown, gc.Failed, gc.Failed, ErrRefused},
		"a failed test":      {statusAnswer(failed(422, "Invalid", "the server rejected our request due to an error in our request", nil)), gc.Unknown, gc.Failed, gc.Conflict, ErrRefused},
		"invalid":            {statusAnswer(failed(422, "Invalid", `CronTab "o1" is invalid: x`, aboutIt)), gc.Unknown, gc.Failed, gc.Failed, ErrRefused},
		"HTML":               {code(200, "text/html", "<html>sign in</html>"), gc.Unknown, gc.Failed, gc.Failed, ErrMalformed},
		"cut off":            {code(200, mediaJSON, `{"kind":"CronTab","metadata":{"name":"o1"`), gc.Unknown, gc.Failed, gc.Failed, ErrMalformed},
		"nothing":            {code(200, mediaProtobuf, ""), gc.Unknown, gc.Failed, gc.Failed, ErrMalformed},
		"too long":           {code(200, mediaJSON, strings.Repeat(" ", maxAnswer+1)), gc.Unknown, gc.Failed, gc.Failed, ErrMalformed},
		"down":               {code(503, "text/plain", "no"), gc.Unknown, gc.Failed, gc.Failed, ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { test.answer(t, w, r) }), Options{})
			got, err := c.Read(t.Context(), theObject, true)
			if got.State != test.state || !errors.Is(err, test.err) {
				t.Errorf("read: %d, %v; want %d, %v", got.State, err, test.state, test.err)
			}
			for _, act := range []struct {
				verb gc.Verb
				want gc.Result
			}{{gc.Delete, test.delete}, {gc.RemoveFinalizer, test.patch}} {
				out := c.Do(t.Context(), gc.Action{Verb: act.verb, Object: theObject, ResourceVersion: "7", Finalizer: "f"}, true)
				if out.Result != act.want || out.Throttled {
					t.Errorf("%s: %+v, want %s", act.verb, out, act.want)
				}
				if done := act.want == gc.Done || act.want == gc.Gone; done != (out.Err == nil) {
					t.Errorf("%s: error %v", act.verb, out.Err)
				}
			}
		})
	}
}

func TestThrottled(t *testing.T) {
	for name, test := range map[string]struct {
		answer answering
		after  time.Duration
		want   bool
	}{
		"429": {func(t *testing.T, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "3")
			code(429, "text/plain", "too many")(t, w, r)
		}, 3 * time.Second, true},
		"a timeout of etcd": {statusAnswer(failed(500, "ServerTimeout", "etcd", &metav1.StatusDetails{RetryAfterSeconds: 2})), 2 * time.Second, true},
		"forever": {func(t *testing.T, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "999999999")
			code(429, "text/plain", "too many")(t, w, r)
		}, maxPause, true},
		"down": {code(500, "text/plain", "no"), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { test.answer(t, w, r) }), Options{})
			out := c.Do(t.Context(), gc.Action{Verb: gc.Delete, Object: theObject, ResourceVersion: "7"}, true)
			want, state := gc.Failed, gc.Unknown
			if test.want {
				want, state = gc.TooMany, gc.TooBusy
			}
			if a, err := c.Read(t.Context(), theObject, true); a.State != state || err == nil {
				t.Errorf("read: %v, %v", a.State, err)
			}
			if out.Result != want || out.Throttled != test.want || out.RetryAfter != test.after {
				t.Errorf("%+v", out)
			}
		})
	}
}

// A webhook that cannot be asked shows nothing about the API server.
func TestWebhookDown(t *testing.T) {
	down := failed(500, "InternalError", `Internal error occurred: failed calling webhook "w": connection refused`, &metav1.StatusDetails{RetryAfterSeconds: 30})
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { statusAnswer(down)(t, w, r) }), Options{})
	out := c.Do(t.Context(), gc.Action{Verb: gc.Delete, Object: theObject, ResourceVersion: "7"}, true)
	if out.Result != gc.Failed || !out.OfObject || out.Throttled || out.RetryAfter != 0 {
		t.Errorf("%+v", out)
	}
}

// An object that the API server refuses as invalid shows nothing about the API server, either.
func TestInvalidObject(t *testing.T) {
	invalid := failed(422, "Invalid", `Job.batch "name" is invalid: spec.template.metadata.labels[job-name]: Invalid value`, &metav1.StatusDetails{Name: theObject.Name})
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { statusAnswer(invalid)(t, w, r) }), Options{})
	out := c.Do(t.Context(), gc.Action{Verb: gc.RemoveFinalizer, Object: theObject, ResourceVersion: "7", Finalizer: "foregroundDeletion"}, true)
	if out.Result != gc.Failed || !out.OfObject {
		t.Errorf("%+v", out)
	}
}

// What is sent, to the letter.
func TestRequests(t *testing.T) {
	ref := gc.Reference{APIVersion: "v1", Kind: "K", Name: `a"b`, UID: "u1"}
	for name, test := range map[string]struct {
		action gc.Action
		want   string
	}{
		"delete": {gc.Action{Verb: gc.Delete, Policy: gc.Orphan, ResourceVersion: "7"},
			`DELETE {"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"uid-1","resourceVersion":"7"},"propagationPolicy":"Orphan"}`},
		"delete at once": {gc.Action{Verb: gc.Delete, NoGrace: true, ResourceVersion: "7"},
			`DELETE {"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{"uid":"uid-1","resourceVersion":"7"}}`},
		"references, the last first": {gc.Action{Verb: gc.RemoveReferences, Refs: []gc.Position{{Index: 0, Reference: ref}, {Index: 2, Reference: ref}}},
			`PATCH [{"op":"test","path":"/metadata/uid","value":"uid-1"}` + testsOf("2") + testsOf("0") +
				`,{"op":"remove","path":"/metadata/ownerReferences/2"},{"op":"remove","path":"/metadata/ownerReferences/0"}]`},
		"unblock": {gc.Action{Verb: gc.Unblock, Refs: []gc.Position{{Index: 1, Reference: ref}}},
			`PATCH [{"op":"test","path":"/metadata/uid","value":"uid-1"}` + testsOf("1") +
				`,{"op":"add","path":"/metadata/ownerReferences/1/blockOwnerDeletion","value":false}]`},
		"finalizer": {gc.Action{Verb: gc.RemoveFinalizer, Finalizer: "orphan", Index: 3, ResourceVersion: "7"},
			`PATCH [{"op":"test","path":"/metadata/uid","value":"uid-1"},{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"test","path":"/metadata/finalizers/3","value":"orphan"},{"op":"remove","path":"/metadata/finalizers/3"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if got := r.Method + " " + string(body); err != nil || got != test.want {
					t.Errorf("sent:\n%s\nwant:\n%s", got, test.want)
				}
				if r.UserAgent() != "ebb-controller" {
					t.Errorf("as %s", r.UserAgent())
				}
				if r.URL.Path != "/apis/example.com/v1/namespaces/n/crontabs/o1" {
					t.Errorf("to %s", r.URL.Path)
				}
				proto("PartialObjectMetadata", named(1))(t, w, r)
			}), Options{})
			test.action.Object = theObject
			if out := c.Do(t.Context(), test.action, true); out.Result != gc.Done {
				t.Errorf("%+v", out)
			}
		})
	}
}

// TestFailPod: the status is patched, of that version of that Pod alone, at the API
// server's time.
func TestFailPod(t *testing.T) {
	began := time.Now()
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Metadata struct{ UID, ResourceVersion string }
			Status   struct {
				Phase              string
				ObservedGeneration int64
				Conditions         []struct {
					Type, Status, Reason, Message string
					LastTransitionTime            time.Time
					ObservedGeneration            int64
				}
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		at := body.Status.Conditions[0].LastTransitionTime
		body.Status.Conditions[0].LastTransitionTime = time.Time{}
		got := fmt.Sprint(r.Method, r.URL.Path, r.Header.Get("Content-Type"), body)
		want := "PATCH/apis/example.com/v1/namespaces/n/crontabs/o1/statusapplication/strategic-merge-patch+json{{uid-1 7} {Failed 3 " +
			"[{DisruptionTarget True DeletionByPodGC ebb-controller: node_gone 0001-01-01 00:00:00 +0000 UTC 3}]}}"
		if got != want {
			t.Errorf("sent:\n%s\nwant:\n%s", got, want)
		}
		if at.Before(began.Add(-2*time.Second)) || at.After(time.Now()) {
			t.Errorf("at %v", at)
		}
		proto("PartialObjectMetadata", named(1))(t, w, r)
	}), Options{})
	a := gc.Action{Verb: gc.FailPod, Disrupted: true, Generation: 3, Object: theObject, ResourceVersion: "7", Reason: "node_gone"}
	if out := c.Do(t.Context(), a, true); out.Result != gc.Done || out.Object == nil {
		t.Errorf("%+v", out)
	}
}

// A deletion by the UID alone would take what was adopted meanwhile.
func TestDeletionNeedsVersion(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }), Options{})
	if out := c.Do(t.Context(), gc.Action{Verb: gc.Delete, Object: theObject}, true); !errors.Is(out.Err, ErrRefused) {
		t.Errorf("%+v", out)
	}
}

func testsOf(index string) string {
	at := `,{"op":"test","path":"/metadata/ownerReferences/` + index
	return at + `/uid","value":"u1"}` + at + `/name","value":"a\"b"}` + at + `/kind","value":"K"}` + at + `/apiVersion","value":"v1"}`
}
