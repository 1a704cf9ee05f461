// Package e2e opens the pages of ebb ui in a real browser.
package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
	"github.com/ebb-agent/ebb/agent/show/showtest"
	"github.com/ebb-agent/ebb/agent/ui"
	"github.com/ebb-agent/ebb/tools/peers"
)

var pictures = flag.String("pictures", "", "directory for pictures of the pages")

// cluster is what the pages are about.
type cluster struct {
	mu    sync.Mutex
	nodes []show.Node[page.Status]
	away  bool
	node  ui.Node
}

func (c *cluster) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *cluster) Nodes(context.Context) ([]show.Node[page.Status], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return nil, errors.New("the API server is away")
	}
	return append([]show.Node[page.Status](nil), c.nodes...), nil
}

func (c *cluster) Node(_ context.Context, name string) (ui.Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return ui.Node{}, fmt.Errorf("no answer of %s", name)
	}
	return c.node, nil
}

func (c *cluster) Why(context.Context, string, string) (page.Why, error) {
	return showtest.Why(showtest.Old()), nil
}

// hostile is a text that is no name.
const hostile = `</td><script>document.title="taken"</script><img src=x onerror="document.title='taken'">` + showtest.Evil

// newCluster has two nodes, one in trouble.
func newCluster() *cluster {
	past := page.Past{Time: showtest.Now, Filesystems: []page.PastUsage{{Path: "/var/lib/containerd"}}}
	for n := range 288 {
		used := 55 + n*7%26
		past.Filesystems[0].Samples = append(past.Filesystems[0].Samples, page.Sample{Time: showtest.Now.Add(time.Duration(n-287) * 5 * time.Minute), UsedPercent: used})
	}
	return &cluster{
		nodes: []show.Node[page.Status]{{Name: "worker-1", Page: showtest.Status()}, {Name: "worker-2", Page: showtest.Troubled()}},
		node:  ui.Node{Status: showtest.Status(), Past: past, Images: showtest.Images(), History: showtest.History(), Usage: showtest.Usage(), Writers: showtest.Writers(showtest.Now, 4<<30)},
	}
}

// serve returns the address of the pages.
func (c *cluster) serve(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := listener.Addr().String()
	u, err := ui.New(ui.Options{Source: c, Host: host, Token: "token-of-the-test"})
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: u.Handler(), ReadHeaderTimeout: time.Minute}}
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return "http://" + host + "/token-of-the-test"
}

func need(t *testing.T) {
	t.Helper()
	if os.Getenv(peers.BinariesEnv) == "" {
		t.Skip("SKIPPED: needs Chromium: make e2e-control")
	}
}

func TestPages(t *testing.T) {
	need(t)
	c := newCluster()
	c.nodes = append(c.nodes, show.Node[page.Status]{Name: hostile, Page: showtest.Troubled()}, show.Node[page.Status]{Name: "worker-3", Err: errors.New(hostile)})
	base := c.serve(t)
	b := newBrowser(t, true)
	b.open(base + "/")
	b.sees("worker-2")
	for name, path := range map[string]string{"nodes": "/", "node": "/node/worker-1", "image": "/node/worker-1/image?id=sha256:0a1b"} {
		for _, width := range []int{360, 1200} {
			for scheme, back := range map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 26)"} {
				b.emulate(width, 800, scheme)
				b.open(base + path)
				if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > width {
					t.Errorf("%s is %d wide in a window of %d", path, wide, width)
				}
				if got := eval[string](b, "getComputedStyle(document.body).backgroundColor"); got != back {
					t.Errorf("%s has the background %s, want %s", path, got, back)
				}
				if file := fmt.Sprintf("%s-%d-%s.png", name, width, scheme); *pictures != "" {
					if err := os.WriteFile(filepath.Join(*pictures, file), b.screenshot(), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if title := eval[string](b, "document.title"); strings.Contains(title, "taken") {
			t.Errorf("%s: a name has become a script", path)
		}
		if n := eval[int](b, "document.images.length + document.scripts.length"); n != 1 {
			t.Errorf("%s has %d scripts and images", path, n)
		}
		t.Logf("%s: first paint after %.0f ms", path, firstPaint(b))
	}
	c.change(func() {
		for n := range 1000 {
			c.nodes = append(c.nodes, show.Node[page.Status]{Name: fmt.Sprintf("ip-10-20-30-%04d.eu-central-1.compute.internal", n), Page: showtest.Troubled()})
		}
	})
	b.emulate(360, 800, "light")
	b.open(base + "/")
	b.sees("904 are left out")
	if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > 360 {
		t.Errorf("1,000 nodes are %d wide in a window of 360", wide)
	}
	t.Logf("1,000 nodes: first paint after %.0f ms", firstPaint(b))
	b.wantNoComplaints()
}

// firstPaint waits until something is painted, and returns how long after its request that was.
func firstPaint(b *browser) (ms float64) {
	b.Helper()
	for deadline := time.Now().Add(time.Minute); ms == 0; time.Sleep(10 * time.Millisecond) {
		if ms = eval[float64](b, `performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0`); time.Now().After(deadline) {
			b.Fatal("nothing is painted")
		}
	}
	return ms
}

// An open page follows what happens, and the focus stays where it is.
func TestFollows(t *testing.T) {
	need(t)
	c := newCluster()
	base := c.serve(t)
	b := newBrowser(t, true)
	b.open(base + "/")
	b.open(base + "/node/worker-1")
	b.sees("postgres:15")
	_ = eval[any](b, `document.querySelector("[id^=image-]").focus()`)
	focus := eval[string](b, "document.activeElement.id")
	b.emulate(360, 300, "light") // the table is wider than that
	const scrolled = `[...document.querySelectorAll(".wide")].map(e => e.scrollLeft).join() + " " + window.scrollY`
	_ = eval[any](b, `window.scrollTo(0, 200); document.querySelectorAll(".wide").forEach(e => { e.scrollLeft = 40 })`)
	position := eval[string](b, scrolled)
	c.change(func() { c.node.Status.Version = "0.3.0" })
	b.sees("version 0.3.0")
	if now := eval[string](b, scrolled); now != position {
		t.Errorf("scrolled to %s, and then to %s", position, now)
	}
	if now := eval[string](b, "document.activeElement.id"); focus == "" || now != focus {
		t.Errorf("the focus was on %q, and is on %q", focus, now)
	}
	c.change(func() { c.away = true })
	b.sees("no answer of worker-1")
	c.change(func() { c.away = false })
	b.sees("postgres:15")
	b.wantNoComplaints()
}

func TestWithoutScripts(t *testing.T) {
	need(t)
	c := newCluster()
	base := c.serve(t)
	b := newBrowser(t, false)
	b.open(base + "/")
	b.sees("worker-2")
	b.open(base + "/node/worker-1")
	b.sees("Next to go")
}
