package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeEvents keeps what is written as a real API server does; answer replaces that.
type fakeEvents struct {
	mu     sync.Mutex
	have   map[string]map[string]any
	asked  []string
	answer func(w http.ResponseWriter, r *http.Request) (answered bool)
}

func (f *fakeEvents) handle(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, r.Method+" "+r.Header.Get("Content-Type"))
	if f.answer != nil && f.answer(w, r) {
		return
	}
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		answerJSON(w, 400, wireStatus(400, "BadRequest", err.Error(), ""))
		return
	}
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, nodeEvents), "/")
	switch r.Method {
	case http.MethodPost:
		name = body["metadata"].(map[string]any)["name"].(string)
		if f.have[name] != nil {
			answerJSON(w, 409, wireStatus(409, "AlreadyExists", "exists", name))
			return
		}
		f.have[name] = body
		answerJSON(w, 201, mustJSON(body))
	case http.MethodPatch:
		if f.have[name] == nil {
			answerJSON(w, 404, wireStatus(404, "NotFound", "not found", name))
			return
		}
		for k, v := range body {
			f.have[name][k] = v
		}
		answerJSON(w, 200, mustJSON(f.have[name]))
	default:
		http.Error(w, "what?", http.StatusMethodNotAllowed)
	}
}

func newFakeEvents(t *testing.T) (*fakeEvents, *APIServer) {
	t.Helper()
	f := &fakeEvents{have: make(map[string]map[string]any)}
	return f, newServer(t, f.handle).apiServer(t)
}

var anEvent = NodeEvent{
	Name: "ebb-agent.x", Warning: true, Reason: "EbbHold", Message: "full", Count: 1,
	First: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Last: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
}

// An Event is created, brought up to date, and created again once it has expired.
func TestPostEvent(t *testing.T) {
	f, a := newFakeEvents(t)
	if err := a.PostEvent(t.Context(), anEvent); err != nil {
		t.Fatal(err)
	}
	later := anEvent
	later.Again, later.Count, later.Message, later.Last = true, 4, "fuller", later.Last.Add(time.Hour)
	if err := a.PostEvent(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]any{"ebb-agent.x": {
		"apiVersion": "v1", "kind": "Event",
		"metadata":       map[string]any{"name": "ebb-agent.x", "namespace": "default"},
		"involvedObject": map[string]any{"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "node-1"},
		"type":           "Warning", "reason": "EbbHold", "message": "fuller", "count": 4.0,
		"firstTimestamp": "2026-03-01T12:00:00Z", "lastTimestamp": "2026-03-01T13:00:00Z",
		"source":             map[string]any{"component": "ebb-agent", "host": "node-1"},
		"reportingComponent": "ebb-agent", "reportingInstance": "node-1",
	}}
	if diff := cmp.Diff(want, f.have); diff != "" {
		t.Error(diff)
	}
	clear(f.have)
	if err := a.PostEvent(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, f.have); diff != "" {
		t.Errorf("after it has expired:\n%s", diff)
	}
	// As if the answer to that had been lost.
	first := anEvent
	if err := a.PostEvent(t.Context(), first); err != nil {
		t.Error(err)
	}
	const create, patch = "POST application/json", "PATCH application/merge-patch+json"
	if diff := cmp.Diff([]string{create, patch, patch, create, create}, f.asked); diff != "" {
		t.Error(diff)
	}
}

// A refusal names the right that is missing, and temporary failures are distinguished from permanent ones.
func TestPostEventFails(t *testing.T) {
	for code, c := range map[int]struct {
		is        error
		contains  string
		after     time.Duration
		temporary bool
	}{
		403: {ErrForbidden, "create and patch events in the namespace default", 0, false},
		401: {ErrUnauthorized, "does not know", 0, false},
		422: {ErrUnavailable, "POST ", 0, false},
		404: {ErrUnavailable, nodeEvents, 0, false},
		409: {ErrUnavailable, "because", 0, false},
		429: {ErrUnavailable, "because", 7 * time.Second, true},
		500: {ErrUnavailable, "because", 0, true},
		503: {ErrUnavailable, "because", 0, true},
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			f, a := newFakeEvents(t)
			f.answer = func(w http.ResponseWriter, _ *http.Request) bool {
				if code == http.StatusTooManyRequests {
					w.Header().Set("Retry-After", "7")
				}
				answerJSON(w, code, wireStatus(code, "Whatever", "because", ""))
				return true
			}
			err := a.PostEvent(t.Context(), anEvent)
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.contains) {
				t.Errorf("%v", err)
			}
			if after, ok := Temporary(err); after != c.after || ok != c.temporary {
				t.Errorf("temporary: %v, after %v", ok, after)
			}
		})
	}
	f := &fakeEvents{have: make(map[string]map[string]any)}
	s := newServer(t, f.handle)
	a := s.apiServer(t)
	s.Close()
	if err := a.PostEvent(t.Context(), anEvent); err == nil {
		t.Error("nobody listens, and there is no error")
	} else if _, ok := Temporary(err); !ok {
		t.Errorf("nobody listens: %v is permanent", err)
	}
	if _, ok := Temporary(nil); ok {
		t.Error("no error is temporary")
	}
}
