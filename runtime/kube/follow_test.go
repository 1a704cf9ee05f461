package kube

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// setHook replaces what answers in place of the fake; nil: nothing does.
func (f *fakeAPI) setHook(h func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = h
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") == "true" }

func isList(r *http.Request) bool { return r.URL.Path == allPods && !isWatch(r) }

// listed begins with one pod, and waits until it was listed and is watched.
func listed(t *testing.T, change ...func(*timing)) (*fakeAPI, *server, *APIServer, <-chan struct{}) {
	t.Helper()
	f := newFakeAPI()
	f.put(pod("a"))
	s := newServer(t, f.handle)
	a := s.apiServer(t)
	for _, c := range change {
		c(&a.timing)
	}
	changed := run(t, a)
	eventually(t, a, changed, "the list", has("a"))
	f.put(pod("b"))
	eventually(t, a, changed, "a watch", has("a", "b"))
	return f, s, a, changed
}

// Each list limits how old it may be: not older than the newest version, which is
// asked for just before. Never is it any version, and never the quorum read that a list
// without a version is.
func TestListsSayHowOldTheyMayBe(t *testing.T) {
	f, _, a, changed := listed(t)
	f.forget()
	f.put(pod("c"))
	eventually(t, a, changed, "listed anew", has("a", "b", "c"))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lists != 2 || f.newest < f.lists {
		t.Errorf("%d lists, %d questions for the newest version", f.lists, f.newest)
	}
	for i, q := range f.asked {
		if got := q.Get("resourceVersionMatch"); got != "NotOlderThan" {
			t.Errorf("list %d has resourceVersionMatch %q", i, got)
		}
		if got := q.Get("resourceVersion"); got == "" || got == "0" {
			t.Errorf("list %d is of the version %q", i, got)
		}
	}
}

// A cache that lags is no answer: neither is the pod that it lacks taken for gone, nor
// is it asked for as long as it lags.
func TestCacheLags(t *testing.T) {
	f := newFakeAPI()
	f.put(pod("a"))
	f.put(pod("b"))
	f.cache = f.version - 1
	a := newServer(t, f.handle).apiServer(t)
	changed := run(t, a)
	eventually(t, a, changed, "the newest state", has("a", "b"))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lists != 2 || f.asked[1].Has("resourceVersion") {
		t.Errorf("asked %v", f.asked)
	}
}

// A server that takes no resourceVersionMatch, or not the question for the newest
// version, is asked for its newest state.
func TestServerWithoutMatch(t *testing.T) {
	for name, refuses := range map[string]func(r *http.Request) bool{
		"the match":        func(r *http.Request) bool { return r.URL.Query().Has("resourceVersionMatch") },
		"a pod by a name":  func(r *http.Request) bool { return r.URL.Path == onePod },
		"both of them are": func(r *http.Request) bool { return r.URL.Path == onePod || r.URL.Query().Has("resourceVersionMatch") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAPI()
			f.put(pod("a"))
			f.setHook(func(w http.ResponseWriter, r *http.Request) bool {
				if !refuses(r) {
					return false
				}
				answerJSON(w, 400, wireStatus(400, "BadRequest", "unknown", ""))
				return true
			})
			a := newServer(t, f.handle).apiServer(t)
			eventually(t, a, run(t, a), "the newest state", has("a"))
			f.mu.Lock()
			defer f.mu.Unlock()
			if q := f.asked[len(f.asked)-1]; q.Has("resourceVersion") || q.Has("resourceVersionMatch") {
				t.Errorf("asked %v", q)
			}
		})
	}
}

// A server that pays no heed to versions and answers from a cache that lags is not
// believed before that has caught up.
func TestOlderListIsRefused(t *testing.T) {
	f := newFakeAPI()
	f.put(pod("a"))
	f.put(pod("b"))
	f.cache, f.ignores = f.version-1, true
	a := newServer(t, f.handle).apiServer(t)
	changed := run(t, a)
	eventually(t, a, changed, "refused", func(p Pods, err error) bool {
		if err == nil {
			t.Fatalf("believed: %+v", p)
		}
		return errors.Is(err, ErrUnavailable) && strings.Contains(err.Error(), "older than")
	})
	eventuallyCount(t, "lists", 3, func() int { n, _ := f.counts(); return n })
	if p, err := a.Pods(t.Context()); err == nil {
		t.Fatalf("believed: %+v", p)
	}
	f.mu.Lock()
	f.cache = 0
	f.mu.Unlock()
	eventually(t, a, changed, "caught up", has("a", "b"))
}

// An etcd from a backup goes on from an older version. A watch from the newer one would
// be silent; its bookmarks show it. The older history is believed when it is reported twice.
func TestRestored(t *testing.T) {
	f, s, a, changed := listed(t)
	f.change(func() {
		f.version, f.log = 50, nil
		delete(f.pods, podName{"shop", "b"})
		for name, p := range f.pods {
			p.Version = 40
			f.pods[name] = p
		}
	})
	s.CloseClientConnections()
	eventually(t, a, changed, "not known", func(_ Pods, err error) bool { return err != nil })
	eventually(t, a, changed, "the older history", has("a"))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lists != 2 || f.newest < 3 {
		t.Errorf("%d lists, %d questions for the newest version", f.lists, f.newest)
	}
}

// An outage through which the server's memory lasts costs no list: the watch goes on
// where it was, and what happened meanwhile comes before the pods count as known.
func TestOutageCostsNoList(t *testing.T) {
	f, s, a, changed := listed(t, func(t *timing) { t.trust, t.idle = usualTiming.trust, usualTiming.idle })
	f.setHook(func(w http.ResponseWriter, _ *http.Request) bool {
		answerJSON(w, 503, nil)
		return true
	})
	s.CloseClientConnections()
	eventually(t, a, changed, "not known", isError(ErrUnavailable))
	f.put(pod("c"))
	f.remove("shop", "a")
	f.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		if isWatch(r) { // agreed to, and then it takes a moment
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(50 * time.Millisecond)
			f.watch(w, r)
		}
		return isWatch(r)
	})
	eventually(t, a, changed, "known again", func(p Pods, err error) bool {
		if err == nil && !has("b", "c")(p, nil) {
			t.Fatalf("known too early: %+v", p)
		}
		return err == nil
	})
	if lists, _ := f.counts(); lists != 1 {
		t.Errorf("%d lists", lists)
	}
}

// An error event that is not about the version does not mean that anything was missed.
func TestErrorEventCostsNoList(t *testing.T) {
	f, s, a, changed := listed(t)
	var sent atomic.Bool
	f.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		if !isWatch(r) || sent.Swap(true) {
			return false
		}
		answerJSON(w, 200, wireEvent("ERROR", wireStatus(500, "InternalError", "etcd went", "")))
		return true
	})
	s.CloseClientConnections()
	f.put(pod("c"))
	eventually(t, a, changed, "known again", has("a", "b", "c"))
	if lists, _ := f.counts(); lists != 1 || !sent.Load() {
		t.Errorf("%d lists", lists)
	}
}

// The page of a captive portal proves nothing about versions.
func TestCaptivePortalCostsNoList(t *testing.T) {
	f, s, a, changed := listed(t)
	f.setHook(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html>log in here</html>"))
		return true
	})
	s.CloseClientConnections()
	eventually(t, a, changed, "not known", isError(ErrMalformed))
	f.setHook(nil)
	eventually(t, a, changed, "known again", has("a", "b"))
	if lists, _ := f.counts(); lists != 1 {
		t.Errorf("%d lists", lists)
	}
}

// refuseOnce answers the first time with 429 and a Retry-After of a second, and notes when it was asked.
func refuseOnce(f *fakeAPI, which func(*http.Request) bool) (asked func() []time.Time) {
	var times []time.Time
	f.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		if !which(r) {
			return false
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		times = append(times, time.Now())
		if len(times) > 1 {
			return false
		}
		w.Header().Set("Retry-After", "1")
		answerJSON(w, 429, wireStatus(429, "TooManyRequests", "slow down", ""))
		return true
	})
	return func() []time.Time {
		f.mu.Lock()
		defer f.mu.Unlock()
		return slices.Clone(times)
	}
}

// Whoever is sent away for a second does not come back before, with whatever request.
func TestRetryAfter(t *testing.T) {
	for name, which := range map[string]func(*http.Request) bool{
		"the newest version": func(r *http.Request) bool { return r.URL.Path == onePod },
		"a list":             isList,
		"a watch":            isWatch,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI()
			f.put(pod("a"))
			asked := refuseOnce(f, which)
			a := newServer(t, f.handle).apiServer(t)
			changed := run(t, a)
			eventuallyCount(t, "attempts", 2, func() int { return len(asked()) })
			eventually(t, a, changed, "known", has("a"))
			if times := asked(); times[1].Sub(times[0]) < time.Second {
				t.Errorf("asked again after %s", times[1].Sub(times[0]))
			}
		})
	}
}

// After an outage lists are spread, and a small request shows that it is over.
// The first list of a process comes at once if nothing shows that other nodes want one.
func TestListsAreSpread(t *testing.T) {
	f := newFakeAPI()
	f.put(pod("a"))
	s := newServer(t, f.handle)
	a := s.apiServer(t)
	a.timing.unknownSpread = 1000 * time.Hour
	changed := run(t, a)
	eventually(t, a, changed, "the first list", has("a"))
	f.forget()
	f.setHook(noList(t))
	eventually(t, a, changed, "waiting", waitsForTurn)
	late := s.apiServer(t) // this one came while the server was away
	late.timing.unknownSpread = 1000 * time.Hour
	var away atomic.Bool
	away.Store(true)
	f.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		noList(t)(w, r)
		if !away.Load() {
			return false
		}
		answerJSON(w, 503, nil)
		return true
	})
	changed = run(t, late)
	eventually(t, late, changed, "away", func(_ Pods, err error) bool { return err != nil && strings.Contains(err.Error(), "503") })
	away.Store(false)
	eventually(t, late, changed, "waiting", waitsForTurn)
}

func noList(t *testing.T) func(http.ResponseWriter, *http.Request) bool {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if isList(r) {
			t.Error("a list at once")
		}
		return false
	}
}

func waitsForTurn(_ Pods, err error) bool {
	return errors.Is(err, ErrUnavailable) && errors.Is(err, ErrNotYet) && strings.Contains(err.Error(), "turn")
}

// fleet is a server whose DaemonSet reports agents on so many nodes.
func fleet(t *testing.T, f *fakeAPI, answer string) *APIServer {
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/apps/v1/namespaces/tide/daemonsets/agent" {
			f.handle(w, r)
			return
		}
		if got := r.URL.RawQuery; got != "resourceVersion=0" {
			t.Errorf("the DaemonSet is asked for with %q: not from the server's cache", got)
		}
		answerJSON(w, 200, []byte(answer))
	})
	a := s.apiServer(t)
	a.daemonSet = daemonSetPath("tide", "agent")
	a.timing.unknownSpread = 1000 * time.Hour
	return a
}

// All nodes start at once where a DaemonSet is new. Their first lists are spread by the number of nodes,
// and the list of a node that is about to remove images comes at once.
func TestFirstListIsSpread(t *testing.T) {
	f := newFakeAPI()
	f.put(pod("a"))
	f.setHook(noList(t))
	a := fleet(t, f, `{"status": {"desiredNumberScheduled": 100000}}`)
	changed := run(t, a)
	eventually(t, a, changed, "waiting", waitsForTurn)
	f.setHook(nil)
	<-a.Hurry()
	if pods, err := a.Pods(t.Context()); !has("a")(pods, err) {
		t.Errorf("in a hurry: %v, %v", pods, err)
	}
	f.setHook(noList(t))
	f.forget() // an outage
	eventually(t, a, changed, "waiting", waitsForTurn)
}

// A node in a hurry waits for the answer that is on its way, and not for one that nobody asks for.
func TestHurry(t *testing.T) {
	t.Run("before the first answer", func(t *testing.T) {
		f := newFakeAPI()
		f.put(pod("a"))
		a := fleet(t, f, `{"status": {"desiredNumberScheduled": 100000}}`)
		asked := a.Hurry()
		run(t, a)
		<-asked
		if pods, err := a.Pods(t.Context()); !has("a")(pods, err) {
			t.Errorf("%v, %v", pods, err)
		}
	})
	t.Run("the server is away", func(t *testing.T) {
		a := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, 503, nil) }).apiServer(t)
		changed := run(t, a)
		eventually(t, a, changed, "away", func(_ Pods, err error) bool { return err != nil && strings.Contains(err.Error(), "503") })
		if a.Hurry() != nil {
			t.Error("there is something to wait for")
		}
	})
	t.Run("known", func(t *testing.T) {
		_, _, a, _ := listed(t)
		if a.Hurry() != nil {
			t.Error("there is something to wait for")
		}
	})
}

// A few nodes do not wait after an outage, and an answer without a number is no answer.
func TestSpreadByNodes(t *testing.T) {
	for answer, want := range map[string]time.Duration{
		`{"status": {"desiredNumberScheduled": 3}}`:       3 * PerNode,
		`{"status": {"desiredNumberScheduled": 0}}`:       0,
		`{"status": {"desiredNumberScheduled": -1}}`:      1000 * time.Hour,
		`{"status": {"desiredNumberScheduled": 1000000}}`: 1000 * time.Hour,
		`{"kind": "Status"}`:                              1000 * time.Hour,
		`{`:                                               1000 * time.Hour,
	} {
		f := follower{APIServer: fleet(t, newFakeAPI(), answer), shared: true}
		if got := f.spreadNow(t.Context()); got != want {
			t.Errorf("%s: %s, want %s", answer, got, want)
		}
		f.spread = time.Second
		if got := f.spreadNow(t.Context()); got != time.Second {
			t.Errorf("configured: %s", got)
		}
	}
}

// The arithmetic of 5,000 nodes: at most 50 lists a second, by chance and in the worst second.
func TestUsualSpread(t *testing.T) {
	const nodes, most = 5000, 50
	random := rand.New(rand.NewPCG(1, 2))
	var second [int(nodes * PerNode / time.Second)]int
	for range nodes {
		second[random.IntN(len(second))]++
	}
	if worst := slices.Max(second[:]); worst > most {
		t.Errorf("%d lists in a second", worst)
	}
	// Of lists that fail, each is followed by a pause from half a window on, of as much
	// as a window: a whole one on average.
	if usualTiming.maxPause > 10*time.Second {
		t.Errorf("watches are resumed after %s only", usualTiming.maxPause)
	}
}

func TestOlder(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"1", "2", true}, {"2", "1", false}, {"2", "2", false}, {"9", "10", true}, {"10", "9", false},
		{"09", "10", true}, {"0", "1", true}, {"", "1", false}, {"1", "", false}, {"a", "b", false}, {"1a", "2", false},
		{"18446744073709551616", "18446744073709551617", true},
	} {
		if got := older(tt.a, tt.b); got != tt.want {
			t.Errorf("%q older than %q: %v", tt.a, tt.b, got)
		}
	}
}
