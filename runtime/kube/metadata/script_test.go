package metadata

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/ebb-agent/ebb/policy/gc"
)

// deadProxy is in the environment of all tests. Nothing listens there.
const deadProxy = "http://127.0.0.1:1"

func TestMain(m *testing.M) {
	_ = os.Setenv("HTTP_PROXY", deadProxy)
	goleak.VerifyTestMain(m)
}

// step is one request that is expected, and what is answered: what a real API
// server would not, or not when it is wanted.
type step struct {
	want   string // see label
	answer func(t *testing.T, w http.ResponseWriter, r *http.Request)
}

// label returns what a request asks for, in a word.
func label(q url.Values) string {
	switch {
	case q.Get("sendInitialEvents") == "true":
		return "stream"
	case q.Get("watch") == "true":
		return "watch " + q.Get("resourceVersion")
	case q.Get("limit") == "1":
		return "probe"
	case q.Get("continue") != "":
		return "page " + q.Get("continue")
	case q.Get("limit") != "":
		return "page"
	}
	return "whole"
}

// script is a server that expects requests in an order; after the last it is
// silent.
type script struct {
	t     *testing.T
	steps []step
	mu    sync.Mutex
	at    int
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	at := s.at
	s.at++
	s.mu.Unlock()
	if at >= len(s.steps) {
		<-r.Context().Done()
		return
	}
	if got := label(r.URL.Query()); got != s.steps[at].want {
		s.t.Errorf("request %d asks for %q, want %q", at, got, s.steps[at].want)
	}
	s.steps[at].answer(s.t, w, r)
}

func serve(t *testing.T, h http.Handler, o Options) *Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := New(&rest.Config{Host: server.URL}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.timing.minPause, c.timing.maxPause, c.timing.spread = time.Millisecond, 10*time.Millisecond, 10*time.Millisecond
	return c
}

func (k EventKind) String() string {
	names := [...]string{"nothing", "listing", "observed", "synced", "deleted", "progress", "unreadable", "away", "went-back", "skipped"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown event"
}

type answering = func(t *testing.T, w http.ResponseWriter, r *http.Request)

// frames answers with a watch that then ends; a nil frame stays silent instead.
func watching(all ...func(t require) []byte) answering {
	return func(t *testing.T, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaProtobuf+";stream=watch")
		w.WriteHeader(http.StatusOK)
		for _, f := range all {
			if f == nil {
				flush(w)
				<-r.Context().Done()
				return
			}
			if _, err := w.Write(f(t)); err != nil {
				return // the other side was done
			}
		}
		flush(w)
	}
}

func flush(w http.ResponseWriter) { w.(http.Flusher).Flush() }

func obj(i int) func(require) []byte { return func(t require) []byte { return put1(t, named(i)) } }

func gone(i int) func(require) []byte {
	return func(t require) []byte { return frame(t, "DELETED", "PartialObjectMetadata", named(i)) }
}

func mark(version string) func(require) []byte {
	return func(t require) []byte { return bookmarkAt(t, version, false) }
}

func end(version string) func(require) []byte {
	return func(t require) []byte { return bookmarkAt(t, version, true) }
}

func failure(s *metav1.Status) func(require) []byte {
	return func(t require) []byte { return frame(t, "ERROR", "Status", s) }
}

func cutShort(f func(require) []byte) func(require) []byte {
	return func(t require) []byte { b := f(t); return b[:len(b)-3] }
}

func code(code int, contentType, body string) answering {
	return func(t *testing.T, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		if _, err := w.Write([]byte(body)); err != nil {
			t.Error(err)
		}
	}
}

func statusAnswer(s *metav1.Status) answering {
	s.Kind = "Status"
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return code(int(s.Code), mediaJSON, string(b))
}

func listing(version, next string, objects ...int) answering {
	return func(t *testing.T, w http.ResponseWriter, r *http.Request) {
		l := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: version, Continue: next}}
		for _, i := range objects {
			l.Items = append(l.Items, *named(i))
		}
		code(http.StatusOK, mediaProtobuf, string(envelope(t, "PartialObjectMetadataList", l)))(t, w, r)
	}
}

// recordingSink is a sink that records the events that it receives.
type recordingSink struct {
	mu      sync.Mutex
	all     []string
	errs    []error
	changed chan struct{}
}

func newRecordingSink() *recordingSink { return &recordingSink{changed: make(chan struct{}, 1)} }

func (s *recordingSink) sink(_ context.Context, batch []Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range batch {
		line := e.Kind.String()
		switch e.Kind {
		case Observed, Deleted:
			line += " " + e.Object.Name
		case Synced, Progress:
			line += " " + e.ResourceVersion
		case Skipped:
			line += " " + e.Object.Name
		case Unreadable:
			s.errs = append(s.errs, e.Err)
		}
		s.all = append(s.all, line)
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return nil
}

// expect waits until as many events were received, and compares them.
func (s *recordingSink) expect(t *testing.T, want ...string) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		s.mu.Lock()
		got := strings.Join(s.all, "\n")
		n := len(s.all)
		s.mu.Unlock()
		if n >= len(want) {
			if w := strings.Join(want, "\n"); got != w {
				t.Fatalf("received:\n%s\nwant:\n%s", got, w)
			}
			return
		}
		select {
		case <-s.changed:
		case <-timeout:
			t.Fatalf("received:\n%s\nwant:\n%s", got, fmt.Sprint(want))
		}
	}
}

var anyType = gc.Type{APIVersion: "example.com/v1", Kind: "CronTab", Resource: "crontabs", Namespaced: true}

// start runs a follower until the test ends.
func start(t *testing.T, f *Follower) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := f.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
}
