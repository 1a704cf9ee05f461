// Package servertest is a conformance suite for what runtime/kube relies on of an API server. A
// real API server must pass it, and so must the fakes in the tests.
package servertest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Server is the API server under test. Its functions end the test if they fail.
type Server struct {
	Client *http.Client
	URL    string
	// Put creates a pod in the namespace default, bound to a node, or changes something about it.
	Put func(t *testing.T, name, node string)
	// Remove deletes a pod without a grace period.
	Remove func(t *testing.T, name string)
	// Forget makes the server forget all older versions.
	Forget func(t *testing.T)
}

// Node is the node whose pods the suite requests.
const Node = "node-1"

const (
	allPods = "/api/v1/pods"
	onePod  = "/api/v1/namespaces/default/pods"
	events  = "/api/v1/namespaces/default/events"
)

// object is any answer: an object, a list or a Status.
type object struct {
	Kind     string
	Metadata struct{ Name, UID, ResourceVersion string }
	Items    []object
	Reason   string
	Message  string
	Count    int
	Code     int
	Details  struct {
		Name, Kind string
		Causes     []struct{ Reason string }
	}
}

func (o object) version(t *testing.T) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatalf("%+v: %v", o, err)
	}
	return n
}

func (s Server) send(t *testing.T, method, path string, q url.Values, contentType string, body any) *http.Response {
	t.Helper()
	for {
		var content io.Reader = http.NoBody
		if body != nil {
			raw, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			content = bytes.NewReader(raw)
		}
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path+"?"+q.Encode(), content)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "application/json")
		r.Header.Set("Content-Type", contentType)
		resp, err := s.Client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		// A server that has just started answers 429 while it fills its watch cache.
		if resp.StatusCode != http.StatusTooManyRequests {
			return resp
		}
		resp.Body.Close()
		time.Sleep(100 * time.Millisecond)
	}
}

// ask sends a request, and fails the test unless the response has this code.
func (s Server) ask(t *testing.T, code int, method, path string, q url.Values, contentType string, body any) (o object) {
	t.Helper()
	resp := s.send(t, method, path, q, contentType, body)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != code || json.Unmarshal(raw, &o) != nil {
		t.Fatalf("%s %s?%s: %d: %s; want %d", method, path, q.Encode(), resp.StatusCode, raw, code)
	}
	return o
}

func (s Server) get(t *testing.T, code int, path string, q url.Values) object {
	t.Helper()
	return s.ask(t, code, http.MethodGet, path, q, "application/json", nil)
}

// ofNode returns the query for the pods of Node. more has further keys and values.
func ofNode(more ...string) url.Values {
	q := url.Values{"fieldSelector": {"spec.nodeName=" + Node}}
	for i := 0; i < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return q
}

// newest returns the version of the newest state.
func (s Server) newest(t *testing.T) uint64 {
	t.Helper()
	return s.get(t, 200, onePod, ofNode("fieldSelector", "metadata.name=ebb,spec.nodeName="+Node)).version(t)
}

// watch reads the events of a watch as "VERB name", without bookmarks.
type watch struct {
	json *json.Decoder
	at   uint64
}

func (s Server) watch(t *testing.T, from uint64) *watch {
	t.Helper()
	resp := s.send(t, http.MethodGet, allPods, ofNode("watch", "true", "allowWatchBookmarks", "true", "timeoutSeconds", "60",
		"resourceVersion", strconv.FormatUint(from, 10)), "application/json", nil)
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("watch from %d: %s", from, resp.Status)
	}
	return &watch{json.NewDecoder(resp.Body), from}
}

func (w *watch) next(t *testing.T) (what string, o object) {
	t.Helper()
	for {
		var e struct {
			Type   string
			Object object
		}
		if err := w.json.Decode(&e); err != nil {
			t.Fatal(err)
		}
		if e.Type == "ERROR" {
			return e.Type, e.Object
		}
		// A bookmark may repeat a version.
		if v := e.Object.version(t); v < w.at || v == w.at && e.Type != "BOOKMARK" {
			t.Errorf("an event of the version %d after %d: %+v", v, w.at, e)
		} else {
			w.at = v
		}
		if e.Type != "BOOKMARK" {
			return e.Type + " " + e.Object.Metadata.Name, e.Object
		}
	}
}

// want checks the next events. A pod on a node is marked as deleted before it is gone. Some
// servers send an event about that and some do not.
func (w *watch) want(t *testing.T, want ...string) {
	t.Helper()
	for _, want := range want {
		got, o := w.next(t)
		if name, gone := strings.CutPrefix(want, "DELETED "); gone && got == "MODIFIED "+name {
			got, o = w.next(t)
		}
		if got != want {
			t.Fatalf("%s (%+v), want %s", got, o, want)
		}
	}
}

func names(list object) string {
	var all []string
	for _, o := range list.Items {
		all = append(all, o.Metadata.Name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// Pods runs the suite for pods. The server must have none.
func Pods(t *testing.T, s Server) {
	s.Put(t, "a", Node)
	s.Put(t, "b", Node)
	s.Put(t, "c", "node-2")
	list := s.get(t, 200, allPods, ofNode())
	if got := names(list); list.Kind != "PodList" || got != "a b" {
		t.Fatalf("listed are %q: %+v", got, list)
	}
	begin := list.version(t)
	for _, o := range list.Items {
		if o.version(t) > begin || o.Metadata.UID == "" {
			t.Errorf("in a list of the version %d: %+v", begin, o)
		}
	}
	if v := s.newest(t); v < begin {
		t.Errorf("the newest version is %d, and a list was of %d", v, begin)
	}

	t.Run("Versions", func(t *testing.T) { versions(t, s, begin) })
	t.Run("Watch", func(t *testing.T) {
		w := s.watch(t, begin)
		w.want(t, "MODIFIED a")
		s.Put(t, "c", "node-2")
		s.Put(t, "d", Node)
		w.want(t, "ADDED d")
		between := w.at
		s.Remove(t, "b")
		s.Put(t, "a", Node)
		w.want(t, "DELETED b", "MODIFIED a")
		s.watch(t, between).want(t, "DELETED b", "MODIFIED a")
	})
	t.Run("One", func(t *testing.T) {
		first := s.get(t, 200, onePod+"/d", nil)
		gone := s.get(t, 404, onePod+"/b", nil)
		if gone.Kind != "Status" || gone.Reason != "NotFound" || gone.Code != 404 || gone.Details.Kind != "pods" || gone.Details.Name != "b" {
			t.Errorf("of a pod that is gone: %+v", gone)
		}
		s.Remove(t, "d")
		s.Put(t, "d", Node)
		if again := s.get(t, 200, onePod+"/d", nil); again.Metadata.UID == first.Metadata.UID {
			t.Errorf("another pod has the UID of the one before: %+v", again)
		}
	})
	t.Run("Expired", func(t *testing.T) {
		s.Forget(t)
		if what, o := s.watch(t, begin).next(t); what != "ERROR" || o.Code != 410 || o.Reason != "Expired" {
			t.Errorf("a watch from what is forgotten begins with %s %+v", what, o)
		}
		if got := names(s.get(t, 200, allPods, ofNode())); got != "a d" {
			t.Errorf("listed are %q", got)
		}
	})
}

// versions changes a pod after the version begin, and checks lists that ask for a version.
func versions(t *testing.T, s Server, begin uint64) {
	s.Put(t, "a", Node)
	newest := s.newest(t)
	if newest <= begin {
		t.Errorf("the newest version is %d after a change, and was %d before", newest, begin)
	}
	bound := ofNode("resourceVersionMatch", "NotOlderThan", "resourceVersion", strconv.FormatUint(newest, 10))
	list := s.get(t, 200, allPods, bound)
	if v := list.version(t); v < newest || names(list) != "a b" {
		t.Errorf("a list that is not older than %d is %+v", newest, list)
	}
	bound.Set("resourceVersion", strconv.FormatUint(newest+1_000_000, 10))
	late := s.get(t, 504, allPods, bound)
	if len(late.Details.Causes) != 1 || late.Details.Causes[0].Reason != "ResourceVersionTooLarge" || !strings.Contains(late.Message, "Too large resource version") {
		t.Errorf("a list of the future: %+v", late)
	}
}

// Events runs the suite for Events about Nodes.
func Events(t *testing.T, s Server) {
	const create, merge = "application/json", "application/merge-patch+json"
	event := map[string]any{
		"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": "ebb-agent.x", "namespace": "default"},
		"involvedObject": map[string]any{"apiVersion": "v1", "kind": "Node", "name": Node, "uid": Node},
		"type":           "Normal", "reason": "EbbHold", "message": "full", "count": 1,
		"firstTimestamp": "2026-03-01T12:00:00Z", "lastTimestamp": "2026-03-01T12:00:00Z",
		"source": map[string]any{"component": "ebb-agent", "host": Node}, "reportingComponent": "ebb-agent", "reportingInstance": Node,
	}
	patch := map[string]any{"count": 2, "message": "fuller", "lastTimestamp": "2026-03-01T13:00:00Z"}
	if got := s.ask(t, 404, http.MethodPatch, events+"/ebb-agent.x", nil, merge, patch); got.Reason != "NotFound" {
		t.Errorf("an Event that is not there: %+v", got)
	}
	s.ask(t, 201, http.MethodPost, events, nil, create, event)
	if got := s.ask(t, 409, http.MethodPost, events, nil, create, event); got.Reason != "AlreadyExists" {
		t.Errorf("an Event that is there: %+v", got)
	}
	if got := s.ask(t, 200, http.MethodPatch, events+"/ebb-agent.x", nil, merge, patch); got.Count != 2 || got.Message != "fuller" || got.Reason != "EbbHold" {
		t.Errorf("an Event that happened again: %+v", got)
	}
}
