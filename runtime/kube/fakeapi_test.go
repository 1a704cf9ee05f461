package kube

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// fakeAPI is an API server that can be made to misbehave. It knows pods of all
// nodes; what a real one does is tested on a real one.
type fakeAPI struct {
	mu       sync.Mutex
	version  int
	pods     map[podName]wirePod
	log      []logged // every event that was
	oldest   int      // watches from before this version are refused
	watchers map[chan struct{}]bool
	lists    int
	asked    []url.Values // of the lists
	newest   int          // how often the newest version was asked for
	cache    int          // how far the cache is that lists come from; 0: as far as can be
	ignores  bool         // the version that a list asks for
	watches  int
	hook     func(w http.ResponseWriter, r *http.Request) bool // true: has answered
	silent   bool                                              // watches are held, and receive no events
}

type logged struct {
	version int
	node    string
	line    []byte
}

func newFakeAPI() *fakeAPI {
	return &fakeAPI{version: 100, pods: make(map[podName]wirePod), watchers: make(map[chan struct{}]bool)}
}

// change does something under the lock, and lets every watch know.
func (f *fakeAPI) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	for w := range f.watchers {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

func (f *fakeAPI) note(kind string, w wirePod) {
	f.log = append(f.log, logged{f.version, w.Node, wireEvent(kind, w.json())})
}

func (f *fakeAPI) put(w wirePod) {
	f.change(func() {
		f.version++
		w.Version, w.Node = f.version, cmp.Or(w.Node, "node-1")
		kind := "ADDED"
		if _, ok := f.pods[podName{w.Namespace, w.Name}]; ok {
			kind = "MODIFIED"
		}
		f.pods[podName{w.Namespace, w.Name}] = w
		f.note(kind, w)
	})
}

func (f *fakeAPI) remove(namespace, name string) {
	f.change(func() {
		w, ok := f.pods[podName{namespace, name}]
		if !ok {
			return
		}
		f.version++
		w.Version = f.version
		delete(f.pods, podName{namespace, name})
		f.note("DELETED", w)
	})
}

// forget makes every watch from the past impossible, and ends those that run.
func (f *fakeAPI) forget() {
	f.change(func() { f.version++; f.oldest = f.version })
}

func (f *fakeAPI) counts() (lists, watches int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lists, f.watches
}

func (f *fakeAPI) handle(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	hook := f.hook
	f.mu.Unlock()
	if hook != nil && hook(w, r) {
		return
	}
	switch {
	case r.URL.Path == onePod:
		f.answerNewest(w, r)
	case r.URL.Path != allPods:
		f.one(w, r)
	case r.URL.Query().Get("fieldSelector") != "spec.nodeName=node-1":
		answerJSON(w, 400, wireStatus(400, "BadRequest", "a list of all pods", ""))
	case r.URL.Query().Get("watch") == "true":
		f.watch(w, r)
	default:
		f.list(w, r)
	}
}

func (f *fakeAPI) one(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"), "/")
	if len(parts) != 3 || parts[1] != "pods" {
		http.NotFound(w, r)
		return
	}
	f.mu.Lock()
	p, ok := f.pods[podName{parts[0], parts[2]}]
	f.mu.Unlock()
	if !ok {
		answerJSON(w, 404, wireStatus(404, "NotFound", fmt.Sprintf("pods %q not found", parts[2]), parts[2]))
		return
	}
	answerJSON(w, 200, p.json())
}

// answerNewest answers a list of one pod by its name, which is not there.
func (f *fakeAPI) answerNewest(w http.ResponseWriter, r *http.Request) {
	if want := "metadata.name=ebb,spec.nodeName=node-1"; r.URL.Query().Get("fieldSelector") != want || len(r.URL.Query()) != 1 {
		answerJSON(w, 400, wireStatus(400, "BadRequest", "not a question for the newest version", ""))
		return
	}
	f.mu.Lock()
	f.newest++
	body := wireList(fmt.Sprint(f.version))
	f.mu.Unlock()
	answerJSON(w, 200, body)
}

// list answers from the cache if the request limits how old the answer may be, and else with
// the newest state.
func (f *fakeAPI) list(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	q := r.URL.Query()
	f.asked = append(f.asked, q)
	version := f.version
	if f.cache > 0 && (q.Has("resourceVersion") || f.ignores) {
		version = f.cache
	}
	if least, _ := strconv.Atoi(q.Get("resourceVersion")); least > version && !f.ignores {
		answerJSON(w, 504, wireTooLarge(least, version))
		return
	}
	var pods [][]byte
	for _, p := range f.pods {
		if p.Node == "node-1" && p.Version <= version {
			pods = append(pods, p.json())
		}
	}
	answerJSON(w, 200, wireList(fmt.Sprint(version), pods...))
}

// watch sends what was noted after the version it is asked for.
func (f *fakeAPI) watch(w http.ResponseWriter, r *http.Request) {
	from, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil || r.URL.Query().Get("allowWatchBookmarks") != "true" {
		answerJSON(w, 400, wireStatus(400, "BadRequest", "no version, or no bookmarks", ""))
		return
	}
	wake := make(chan struct{}, 1)
	f.mu.Lock()
	f.watchers[wake] = true
	f.watches++
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watchers, wake)
	}()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(200)
	for {
		out, expired := f.after(&from)
		_, _ = w.Write(out)
		_ = http.NewResponseController(w).Flush()
		if expired {
			return
		}
		select {
		case <-wake:
		case <-r.Context().Done():
			return
		}
	}
}

func (f *fakeAPI) after(from *int) (out []byte, expired bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.silent {
		return nil, false
	}
	if *from < f.oldest {
		return wireEvent("ERROR", wireStatus(410, "Expired", "too old resource version", "")), true
	}
	for _, e := range f.log {
		if e.version > *from && e.node == "node-1" {
			out = append(out, e.line...)
		}
	}
	*from = f.version
	return append(out, wireBookmark(f.version)...), false
}

// model is what a reader should see.
func (f *fakeAPI) model() []Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := []Pod{}
	for _, p := range f.pods {
		if p.Node == "node-1" {
			list = append(list, p.pod())
		}
	}
	return inOrder(list)
}

func TestFakeAPISpeaksJSON(t *testing.T) {
	f := newFakeAPI()
	f.put(normalPod)
	for _, line := range bytes.Split(bytes.TrimSpace(f.log[0].line), []byte("\n")) {
		if !json.Valid(line) {
			t.Errorf("%s", line)
		}
	}
}
