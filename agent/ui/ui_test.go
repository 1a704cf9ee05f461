package ui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
	"github.com/ebb-agent/ebb/agent/show/showtest"
)

const (
	host  = "127.0.0.1:4000"
	token = "the-token"
)

// fleet is some nodes, one of which is asked for more.
type fleet struct {
	mu    sync.Mutex
	nodes []show.Node[page.Status]
	asked int
	err   error

	images  []page.Image        // nil: those of showtest
	history []page.HistoryEntry // likewise
	poison  bool                // every text of an answer is hostile
}

func (f *fleet) Nodes(context.Context) ([]show.Node[page.Status], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return append([]show.Node[page.Status](nil), f.nodes...), f.err
}

func (f *fleet) Node(_ context.Context, name string) (Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if name == "silent" {
		return Node{}, errors.New("no answer within 10s")
	}
	past := page.Past{Time: showtest.Now, Filesystems: []page.PastUsage{{Path: "/var/lib/containerd", Samples: []page.Sample{
		{Time: showtest.Now.Add(-2 * time.Hour), UsedPercent: 50}, {Time: showtest.Now.Add(-time.Hour), UsedPercent: 82}, {Time: showtest.Now, UsedPercent: 70},
	}}}}
	images, history := showtest.Images(), showtest.History()
	if f.images != nil {
		images.Images, history.Entries = f.images, f.history
	}
	n := Node{
		Status: showtest.Troubled(), Past: past, Images: images, History: history, Usage: showtest.Usage(), Writers: showtest.Writers(showtest.Now, 4<<30),
		Missing: []string{"du: " + showtest.Evil},
	}
	if f.poison {
		n = showtest.Poison(n)
	}
	return n, f.err
}

func (f *fleet) Why(context.Context, string, string) (page.Why, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := showtest.Why(showtest.Old())
	if f.poison {
		w = showtest.Poison(w)
	}
	return w, f.err
}

func newUI(t *testing.T, f *fleet) http.Handler {
	t.Helper()
	u, err := New(Options{Source: f, Host: host, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return u.Handler()
}

// get asks as the browser does that has opened the printed address.
func get(h http.Handler, path string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://"+host+"/"+token+path, nil)
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func some() *fleet {
	return &fleet{nodes: []show.Node[page.Status]{
		{Name: "worker-1", Page: showtest.Status()}, {Name: "worker-2" + showtest.Evil, Page: showtest.Troubled()}, {Name: "silent", Err: errors.New("no answer " + showtest.Evil)},
	}}
}

// Only who has the token, asks the printed address from no other site, and asks for nothing but to see, is let in.
func TestGuard(t *testing.T) {
	h := newUI(t, some())
	at := func(path string) func(*http.Request) {
		return func(r *http.Request) { r.URL.Path = path }
	}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, c := range map[string]struct {
		path   string
		change func(*http.Request)
		want   int
	}{
		"as it should be": {"/", func(*http.Request) {}, http.StatusOK},
		"its own origin":  {"/", header("Origin", "http://"+host), http.StatusOK},
		"a link elsewhere": {"/", func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
		}, http.StatusOK},
		"without the token":      {"/", at("/"), http.StatusUnauthorized},
		"without it, a file":     {"/", at("/style.css"), http.StatusUnauthorized},
		"another token":          {"/", at("/the-tokem/"), http.StatusUnauthorized},
		"a part of the token":    {"/", at("/the-toke/"), http.StatusUnauthorized},
		"the token, and more":    {"/", at("/the-token2/"), http.StatusUnauthorized},
		"the token elsewhere":    {"/", at("/node/the-token"), http.StatusUnauthorized},
		"a name that leads here": {"/", func(r *http.Request) { r.Host = "evil.test:4000" }, http.StatusForbidden},
		"another port":           {"/", func(r *http.Request) { r.Host = "127.0.0.1:4001" }, http.StatusForbidden},
		"another site":           {"/", header("Origin", "http://evil.test"), http.StatusForbidden},
		"another site's image":   {"/", header("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		"another port's image":   {"/live/", header("Sec-Fetch-Site", "same-site"), http.StatusForbidden},
		"a form":                 {"/", func(r *http.Request) { r.Method = http.MethodPost }, http.StatusMethodNotAllowed},
		"a deletion":             {"/node/worker-1", func(r *http.Request) { r.Method = http.MethodDelete }, http.StatusMethodNotAllowed},
		"no such page":           {"/etc/passwd", func(*http.Request) {}, http.StatusNotFound},
		"the files themselves":   {"/files/node.html", func(*http.Request) {}, http.StatusNotFound},
	} {
		w := get(h, c.path, c.change)
		if w.Code != c.want {
			t.Errorf("%s: %d, want %d", name, w.Code, c.want)
		}
		if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none';") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: the content security policy is %q", name, csp)
		}
	}
}

var tag = regexp.MustCompile(`<(script|img|iframe|object|style|form|a|svg)\b[^>]*>`)

// What nodes say is text: it brings no element, no attribute and no control character with it.
func TestHostileNames(t *testing.T) {
	f := some()
	tame := newUI(t, f)
	hostile := `"><script>alert(1)</script><img src=x onerror=alert(2)>` + showtest.Evil
	for path, want := range map[string]string{"/": "worker-2", "/node/worker-2": "Disks", "/node/worker-2/image?id=sha256:0a1b": "Rules", "/node/silent": "no answer within 10s"} {
		w := get(tame, path)
		body := w.Body.String()
		if !strings.Contains(body, want) {
			t.Errorf("%s: %q is not in\n%s", path, want, body)
		}
		small(t, path, body)
		for _, r := range body {
			if r != '\n' && (unicode.IsControl(r) || r == '\u202e') {
				t.Errorf("%s has the character %U", path, r)
				break
			}
		}
	}
	f.nodes[0].Name = hostile
	f.nodes[0].Page.Mode, f.nodes[0].Page.NotReady, f.nodes[0].Page.Ready = hostile, hostile, false
	f.nodes[0].Page.Filesystems[0].Names = []string{hostile}
	f.nodes[0].Page.Filesystems[0].UsedPercent = 99
	body := get(newUI(t, f), "/?q="+"%3Cscript%3E").Body.String()
	body += get(newUI(t, f), "/").Body.String()
	for _, element := range tag.FindAllString(body, -1) {
		if strings.Contains(element, "alert") && !strings.HasPrefix(element, "<a ") || strings.Contains(element, "onerror") && !strings.HasPrefix(element, "<a ") ||
			strings.HasPrefix(element, "<img") || strings.HasPrefix(element, "<script") && element != `<script src="/the-token/live.js" defer>` {
			t.Errorf("a name has become %s", element)
		}
	}
}

// Pages stay small, and have nothing that a browser obeys, if every text of an answer is hostile.
func TestWorstNames(t *testing.T) {
	f := some()
	f.nodes, f.poison = showtest.Poison(f.nodes), true
	f.nodes[2].Err = errors.New(showtest.Worst)
	h := newUI(t, f)
	for _, path := range []string{"/", "/node/worker-2", "/node/worker-2/image?id=x"} {
		body := get(h, path).Body.String()
		small(t, path, body)
		if n := strings.Count(body, "<script"); n != 1 || strings.ContainsAny(body, "\x1b\x07\u202e\u009b") {
			t.Errorf("%s has %d scripts, or control characters", path, n)
		}
	}
}

// The page of a node names the containers that have grown most, the largest first.
func TestWriters(t *testing.T) {
	body := get(newUI(t, some()), "/node/worker-2").Body.String()
	first, second := strings.Index(body, "/system.slice/"), strings.Index(body, "shop/web-1/app")
	if first < 0 || second < first || !strings.Contains(body, "-5MiB") || !strings.Contains(body, "writers on xfs are not counted") {
		t.Errorf("the writers are at %d and %d of\n%s", first, second, body)
	}
}

// small checks that a page has at most 100 KB.
func small(t *testing.T, what, body string) {
	t.Helper()
	if len(body) > 100_000 {
		t.Errorf("%s has %d bytes", what, len(body))
	}
}

// A thousand nodes are one page of a hundred: those without an answer and those under most pressure.
// The others are found by their names.
func TestThousandNodes(t *testing.T) {
	f := &fleet{}
	for n := range 1000 {
		s := showtest.Troubled()
		s.NotReady = strings.Repeat("x", 4096)
		s.Filesystems[0].UsedPercent, s.Filesystems[0].InodesUsedPercent = n%100, 0
		node := show.Node[page.Status]{Name: fmt.Sprintf("ip-10-20-30-%04d.eu-central-1.compute.internal", n), Page: s}
		if n%20 == 7 {
			node = show.Node[page.Status]{Name: node.Name, Err: errors.New(strings.Repeat("no answer ", 400))}
		}
		f.nodes = append(f.nodes, node)
	}
	h := newUI(t, f)
	all := get(h, "/").Body.String()
	small(t, "the page of 1,000 nodes", all)
	silent, answered := strings.Count(all, "<td colspan"), strings.Count(all, `href="/the-token/node/`)
	if silent != silentMost || answered != nodesMost-silentMost || strings.Index(all, "<td colspan") > strings.Index(all, `href="/the-token/node/`) {
		t.Errorf("%d rows with an answer, %d without, which come first", answered, silent)
	}
	if !strings.Contains(all, "-0099.") || strings.Contains(all, "-0050.") || !strings.Contains(all, "50 without an answer") || !strings.Contains(all, "900 are left out") {
		t.Error("those under most pressure are not shown, or not alone")
	}
	if one := get(h, "/?q=-0050.").Body.String(); !strings.Contains(one, "-0050.") || strings.Count(one, `href="/the-token/node/`) != 1 {
		t.Error("a node is not found by its name")
	}
}

// A node with many images, of long names, has small pages. Links lead through all of them.
func TestManyImages(t *testing.T) {
	for name, reference := range map[string]string{
		"usual":   "registry.internal.example.com/teams/payments/checkout-service-%03d:2026.11.3-release",
		"hostile": "%03d" + strings.Repeat(showtest.Evil, 200) + strings.Repeat("x", 4096),
	} {
		t.Run(name, func(t *testing.T) {
			f := some()
			for n := range 200 {
				i := showtest.Old()
				i.ID, i.References = fmt.Sprintf("sha256:%064d", n), []string{fmt.Sprintf(reference, n)}
				if i.Verdict = "remove"; n >= 100 {
					i.Verdict, i.Reason = "keep", "not_needed"
				}
				if i.Detail = "unused for 9d"; name == "hostile" {
					i.Detail, i.Reason = i.References[0], i.References[0]
				}
				f.images = append(f.images, i)
				f.history = append(f.history, page.HistoryEntry{Time: showtest.Now, Kind: "image", ID: i.ID, Names: i.References, Outcome: "removed", Reason: i.Detail, Error: i.Detail})
			}
			h, seen, path := newUI(t, f), map[string]bool{}, "/node/worker-2"
			for range 3 {
				body := get(h, path).Body.String()
				small(t, path, body)
				for _, id := range regexp.MustCompile(`id="image-(sha256:\d{64})"`).FindAllStringSubmatch(body, -1) {
					seen[id[1]] = true
				}
				if next := strings.Count(body, `id="next-`); next != rowsMost {
					t.Errorf("%s has %d images that go next", path, next)
				}
				later := regexp.MustCompile(`id="later" href="(\?from=\d+)#images"`).FindStringSubmatch(body)
				if later == nil {
					break
				}
				path = "/node/worker-2" + later[1]
			}
			if len(seen) != len(f.images) {
				t.Errorf("links led to %d of %d images", len(seen), len(f.images))
			}
			for _, from := range []string{"-1", "x", "199", "200", "99999999999999999999"} {
				if w := get(h, "/node/worker-2?from="+from); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `id="image-`) {
					t.Errorf("from %s: status %d, or no images", from, w.Code)
				}
			}
		})
	}
}

// An open page hears what has changed, and nothing else; a problem, and its end.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := some()
		h := newUI(t, f)
		ctx, cancel := context.WithCancel(t.Context())
		r, w := io.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			get(h, "/")
			req := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/"+token+"/live/", nil)
			h.ServeHTTP(&streaming{ResponseRecorder: httptest.NewRecorder(), w: w}, req)
			w.Close()
		}()
		var heard strings.Builder
		var mu sync.Mutex
		go func() {
			b := make([]byte, 64<<10)
			for {
				n, err := r.Read(b)
				mu.Lock()
				heard.Write(b[:n])
				mu.Unlock()
				if err != nil {
					return
				}
			}
		}()
		events := func() int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return strings.Count(heard.String(), "\n\n")
		}
		if n := events(); n != 1 {
			t.Errorf("%d events at first", n)
		}
		time.Sleep(5 * fleetEvery)
		if n := events(); n != 1 || f.asked < 5 {
			t.Errorf("%d events, %d looks, and nothing has changed", n, f.asked)
		}
		f.mu.Lock()
		f.err = errors.New("the API server is away")
		f.mu.Unlock()
		time.Sleep(fleetEvery + time.Second)
		f.mu.Lock()
		f.err = nil
		f.mu.Unlock()
		time.Sleep(fleetEvery + time.Second)
		if n := events(); n != 3 || !strings.Contains(heard.String(), "the API server is away") {
			t.Errorf("%d events after a problem and its end", n)
		}
		cancel()
		<-done
	})
}

// streaming is an answer that somebody reads while it is written.
type streaming struct {
	*httptest.ResponseRecorder
	w io.Writer
}

func (s *streaming) Write(b []byte) (int, error) { return s.w.Write(b) }
func (s *streaming) FlushError() error           { return nil }
