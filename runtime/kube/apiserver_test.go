package kube

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/runtime/kube/conn"
)

func pod(name string) wirePod {
	return wirePod{Namespace: "shop", Name: name, UID: "uid-" + name, Phase: "Running", Images: []string{"app:1"}}
}

func TestWatch(t *testing.T) {
	f, begun := newFakeAPI(), time.Now()
	mirror := staticPod
	mirror.UID, mirror.Hash = "own", "f00d"
	f.put(mirror)
	f.put(wirePod{Namespace: "shop", Name: "elsewhere", UID: "e", Node: "node-2"})
	a := newServer(t, f.handle).apiServer(t)
	if _, err := a.Pods(t.Context()); !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrNotYet) {
		t.Errorf("before Run: %v", err)
	}
	changed := run(t, a)
	eventually(t, a, changed, "the list", has("etcd-node-1"))
	f.put(pod("a"))
	eventually(t, a, changed, "added", has("etcd-node-1", "a"))
	ended := pod("a")
	ended.Phase, ended.Reason, ended.Deleting = "Failed", "Evicted", true
	f.put(ended)
	eventually(t, a, changed, "evicted", func(p Pods, err error) bool { return err == nil && len(p.List) == 2 && p.List[1].Evicted })
	got, err := a.Pods(t.Context())
	if got.Heard.Before(begun) || got.Heard.After(time.Now()) {
		t.Errorf("heard at %v, begun at %v", got.Heard, begun)
	}
	got.Heard = time.Time{}
	if diff := cmp.Diff(Pods{List: f.model()}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	f.remove("shop", "a")
	eventually(t, a, changed, "removed", has("etcd-node-1"))
	// Another one of that name, on this node and then on another.
	again := pod("a")
	again.UID = "another"
	f.put(again)
	eventually(t, a, changed, "again", has("etcd-node-1", "a"))
	if lists, _ := f.counts(); lists != 1 {
		t.Errorf("%d lists", lists)
	}
}

// What nobody could see a difference in wakes nobody.
func TestWatchIsQuiet(t *testing.T) {
	f := newFakeAPI()
	f.put(pod("a"))
	a := newServer(t, f.handle).apiServer(t)
	changed := run(t, a)
	eventually(t, a, changed, "the list", has("a"))
	for range 20 {
		f.put(pod("a"))
	}
	f.put(wirePod{Namespace: "shop", Name: "elsewhere", UID: "e", Node: "node-2"})
	f.put(pod("b"))
	<-changed
	if pods, err := a.Pods(t.Context()); !has("a", "b")(pods, err) {
		t.Errorf("woken for nothing: %+v, %v", pods, err)
	}
}

func TestExpired(t *testing.T) {
	f := newFakeAPI()
	f.put(pod("a"))
	a := newServer(t, f.handle).apiServer(t)
	changed := run(t, a)
	eventually(t, a, changed, "the list", has("a"))
	for range 3 {
		// What happened in between is in no event.
		f.mu.Lock()
		delete(f.pods, podName{"shop", "a"})
		f.mu.Unlock()
		f.forget()
		eventually(t, a, changed, "without it", has())
		f.put(pod("a"))
		eventually(t, a, changed, "with it", has("a"))
	}
	if lists, _ := f.counts(); lists != 4 {
		t.Errorf("%d lists", lists)
	}
	// 410 as the answer to the watch itself.
	f.mu.Lock()
	refused := false
	f.hook = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" || refused {
			return false
		}
		refused = true
		answerJSON(w, 410, wireStatus(410, "Expired", "too old", ""))
		return true
	}
	f.mu.Unlock()
	f.forget()
	f.put(pod("b"))
	eventually(t, a, changed, "after 410", has("a", "b"))
}

// A watch that ends or breaks is begun anew where it was: no list, and no
// moment at which the pods are not known.
func TestWatchEnds(t *testing.T) {
	f := newFakeAPI()
	f.put(pod("a"))
	s := newServer(t, f.handle)
	a := s.apiServer(t)
	changed := run(t, a)
	eventually(t, a, changed, "the list", has("a"))
	f.put(pod("b")) // not in the list: so a watch has begun
	eventually(t, a, changed, "b", has("a", "b"))
	for _, name := range []string{"c", "d"} {
		_, before := f.counts()
		s.CloseClientConnections()
		eventuallyCount(t, "watches", before+1, func() int { _, n := f.counts(); return n })
		f.put(pod(name))
		eventually(t, a, changed, name, func(p Pods, err error) bool {
			if err != nil {
				t.Fatal(err)
			}
			return p.List[len(p.List)-1].Name == name
		})
	}
	if lists, _ := f.counts(); lists != 1 {
		t.Errorf("%d lists", lists)
	}
}

// The other end vanished: nothing arrives, nothing is refused.
func TestSilence(t *testing.T) {
	f := newFakeAPI()
	f.put(pod("a"))
	f.silent = true
	a := newServer(t, f.handle).apiServer(t)
	a.timing.idle, a.timing.connect = 300*time.Millisecond, time.Second
	changed := run(t, a)
	eventually(t, a, changed, "the list", has("a"))
	// Begun anew, and answered: a server without bookmarks is not a dead one.
	eventuallyCount(t, "watches", 3, func() int { _, n := f.counts(); return n })
	if pods, err := a.Pods(t.Context()); !has("a")(pods, err) {
		t.Error(pods, err)
	}
	// Begun anew, and not answered.
	f.mu.Lock()
	f.hook = func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	}
	f.mu.Unlock()
	eventually(t, a, changed, "not known", isError(conn.ErrSilent))
	f.mu.Lock()
	f.hook, f.silent = nil, false
	f.mu.Unlock()
	eventually(t, a, changed, "known again", has("a"))
}

func eventuallyCount(t *testing.T, what string, want int, count func() int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); count() < want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d", what, count())
		}
	}
}

func TestUsualTimingNoticesInTime(t *testing.T) {
	if d := usualTiming.idle + usualTiming.connect; d > 90*time.Second {
		t.Errorf("a dead watch is noticed after %s", d)
	}
}

func TestAPIServerRefuses(t *testing.T) {
	forbidden := `pods is forbidden: User "system:serviceaccount:ebb:agent" cannot list resource "pods" in API group "" at the cluster scope`
	for name, tt := range map[string]struct {
		code     int
		body     []byte
		want     error
		contains []string
	}{
		"forbidden":       {403, wireStatus(403, "Forbidden", forbidden, ""), ErrForbidden, []string{forbidden, "get, list and watch"}},
		"unauthorized":    {401, wireStatus(401, "Unauthorized", "Unauthorized", ""), ErrUnauthorized, []string{"token in "}},
		"too many":        {429, wireStatus(429, "TooManyRequests", "slow down", ""), ErrUnavailable, []string{"slow down"}},
		"starting":        {500, []byte("not ready\n"), ErrUnavailable, []string{"not ready"}},
		"a proxy's 404":   {404, []byte("404 page not found"), ErrUnavailable, []string{"not found"}},
		"garbage":         {200, []byte("<html>"), ErrMalformed, nil},
		"no version":      {200, wireList(""), ErrMalformed, []string{"resource version"}},
		"a foreign pod":   {200, wireList("1", wirePod{Namespace: "a", Name: "b", UID: "c", Node: "node-2"}.json()), ErrMalformed, []string{"node-2"}},
		"a pod twice":     {200, wireList("1", pod("a").on("node-1"), pod("a").on("node-1")), ErrMalformed, []string{"twice"}},
		"a list cut":      {200, wireList("1", pod("a").on("node-1"))[:150], ErrUnavailable, []string{"cut off"}},
		"a partial list":  {200, []byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1","continue":"x"},"items":[]}`), ErrMalformed, nil},
		"a hostile error": {500, []byte("\x1b]0;owned\x07" + strings.Repeat("x", 1<<20)), ErrUnavailable, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAPI()
			f.put(pod("a"))
			bad := true
			f.hook = func(w http.ResponseWriter, _ *http.Request) bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				if bad {
					answerJSON(w, tt.code, tt.body)
				}
				return bad
			}
			a := newServer(t, f.handle).apiServer(t)
			changed := run(t, a)
			eventually(t, a, changed, "refused", func(_ Pods, err error) bool {
				return errors.Is(err, tt.want) && !strings.Contains(err.Error(), "not asked")
			})
			_, err := a.Pods(t.Context())
			for _, want := range append(tt.contains, "https://127.0.0.1:") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not contain %q", err, want)
				}
			}
			if s := err.Error(); len(s) > 1500 || strings.ContainsAny(s, "\x1b\a\n") {
				t.Errorf("%q cannot be printed", s)
			}
			f.mu.Lock()
			bad = false
			f.mu.Unlock()
			eventually(t, a, changed, "better", has("a"))
		})
	}
}

func (w wirePod) on(node string) []byte { w.Node = node; return w.json() }

// A malformed stream is not followed: the pods are listed anew.
func TestWatchSendsNonsense(t *testing.T) {
	for name, line := range map[string][]byte{
		"garbage":          []byte("<html>\n"),
		"an unknown event": wireEvent("SYNCED", pod("x").on("node-1")),
		"a nameless pod":   wireEvent("ADDED", []byte(`{"kind":"Pod","apiVersion":"v1"}`)),
		"an older version": wireBookmark(7),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAPI()
			f.put(pod("a"))
			sent := false
			f.hook = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Get("watch") == "" || sent {
					return false
				}
				sent = true
				answerJSON(w, 200, line)
				return true
			}
			a := newServer(t, f.handle).apiServer(t)
			changed := run(t, a)
			eventuallyCount(t, "lists", 2, func() int { n, _ := f.counts(); return n })
			f.put(pod("b"))
			eventually(t, a, changed, "listed anew", has("a", "b"))
		})
	}
}

// A server that ends each watch at once is not asked as fast as it answers.
func TestWatchEndsAtOnce(t *testing.T) {
	f := newFakeAPI()
	f.put(pod("a"))
	watches := 0
	f.hook = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" {
			return false
		}
		f.mu.Lock()
		watches++
		f.mu.Unlock()
		answerJSON(w, 200, nil)
		return true
	}
	a := newServer(t, f.handle).apiServer(t)
	a.timing.firstPause, a.timing.maxPause = time.Hour, time.Hour
	changed := run(t, a)
	eventually(t, a, changed, "given up", func(_ Pods, err error) bool {
		return errors.Is(err, ErrUnavailable) && strings.Contains(err.Error(), "as soon as it begins")
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if watches > 5 {
		t.Errorf("%d watches", watches)
	}
}

func TestGone(t *testing.T) {
	f := newFakeAPI()
	mirror := staticPod
	mirror.UID, mirror.Hash = "own", "f00d"
	f.put(mirror)
	f.put(pod("a"))
	f.put(wirePod{Namespace: "shop", Name: "pending", UID: "p", Node: "-"})
	f.put(wirePod{Namespace: "shop", Name: "elsewhere", UID: "e", Node: "node-2"})
	a := newServer(t, f.handle).apiServer(t)
	for _, tt := range []struct {
		namespace, name, uid string
		want                 bool
		err                  string
	}{
		{"shop", "a", "uid-a", false, ""},
		{"shop", "a", "older", true, ""},
		{"shop", "b", "uid-b", true, ""},
		{"kube-system", "etcd-node-1", "f00d", false, ""},
		{"kube-system", "etcd-node-1", "own", false, ""},
		{"kube-system", "etcd-node-1", "beef", true, ""},
		{"shop", "elsewhere", "other", true, ""},
		{"shop", "elsewhere", "e", false, "node's name"},
		{"shop", "..", "x", false, "no pod can"},
		{"shop", "a/../../secrets", "x", false, "no pod can"},
		{"..", "a", "x", false, "no pod can"},
		{"", "a", "x", false, "no pod can"},
		{"shop", "A", "x", false, "no pod can"},
		{"shop", "a", "", false, "no pod can"},
		{"shop", "a?b=c", "x", false, "no pod can"},
	} {
		gone, err := a.Gone(t.Context(), tt.namespace, tt.name, tt.uid)
		if gone != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s/%s %s: %v, %v", tt.namespace, tt.name, tt.uid, gone, err)
		}
	}
}

// Only the API server's own words make a pod gone.
func TestGoneIsNotKnown(t *testing.T) {
	about := func(change func(m map[string]any, details map[string]any)) []byte {
		details := map[string]any{"name": "b", "kind": "pods"}
		m := map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "details": details}
		change(m, details)
		return mustJSON(m)
	}
	for name, tt := range map[string]struct {
		code int
		body []byte
		want error
	}{
		"a bare 404":        {404, []byte("404 page not found\n"), ErrUnavailable},
		"an empty 404":      {404, nil, ErrUnavailable},
		"an empty status":   {404, []byte("{}"), ErrUnavailable},
		"another pod":       {404, about(func(_, d map[string]any) { d["name"] = "c" }), ErrUnavailable},
		"another kind":      {404, about(func(_, d map[string]any) { d["kind"] = "namespaces" }), ErrUnavailable},
		"another group":     {404, about(func(_, d map[string]any) { d["group"] = "metrics.k8s.io" }), ErrUnavailable},
		"another reason":    {404, about(func(m, _ map[string]any) { m["reason"] = "Gone" }), ErrUnavailable},
		"another code":      {404, about(func(m, _ map[string]any) { m["code"] = 403 }), ErrUnavailable},
		"no details":        {404, about(func(m, _ map[string]any) { delete(m, "details") }), ErrUnavailable},
		"a successful 404":  {404, about(func(m, _ map[string]any) { m["status"] = "Success" }), ErrUnavailable},
		"not with that 200": {200, about(func(_, _ map[string]any) {}), ErrMalformed},
		"not with that 410": {410, about(func(_, _ map[string]any) {}), errExpired},
		"forbidden":         {403, about(func(m, _ map[string]any) { m["code"] = 403; m["reason"] = "Forbidden" }), ErrForbidden},
		"unauthorized":      {401, nil, ErrUnauthorized},
		"down":              {503, nil, ErrUnavailable},
		"an empty 200":      {200, nil, ErrUnavailable},
		"a list":            {200, wireList("1"), ErrMalformed},
		"a cut pod":         {200, wirePod{Namespace: "shop", Name: "b", UID: "y"}.json()[:60], ErrUnavailable},
		"a pod not asked":   {200, wirePod{Namespace: "shop", Name: "c", UID: "y"}.json(), ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			a := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, tt.code, tt.body) }).apiServer(t)
			if gone, err := a.Gone(t.Context(), "shop", "b", "x"); gone || !errors.Is(err, tt.want) {
				t.Errorf("gone %v, %v", gone, err)
			}
		})
	}
	a := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, 404, about(func(_, _ map[string]any) {})) }).apiServer(t)
	if gone, err := a.Gone(t.Context(), "shop", "b", "x"); !gone || err != nil {
		t.Errorf("the words themselves: gone %v, %v", gone, err)
	}
}

// After Run nobody keeps the pods up to date.
func TestNotKnownAfterRun(t *testing.T) {
	f := newFakeAPI()
	f.put(pod("a"))
	a := newServer(t, f.handle).apiServer(t)
	t.Run("running", func(t *testing.T) {
		eventually(t, a, run(t, a), "the list", has("a"))
	})
	if _, err := a.Pods(t.Context()); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "not watched any more") {
		t.Error(err)
	}
}
