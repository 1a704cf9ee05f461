package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show/showtest"
)

// The printed address leads to pages of real answers over the real way to an agent. The command ends when its
// context is canceled.
func TestUI(t *testing.T) {
	newCluster(t, "worker-1", "worker-2")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, strings.Fields("ui"), w, io.Discard)
		w.CloseWithError(err)
		ended <- err
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/\w{20,}`).FindString(line)
	var browser http.Client
	defer browser.CloseIdleConnections()
	get := func(url string) (int, string) {
		t.Helper()
		resp, err := browser.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	if code, _ := get(address[:strings.LastIndex(address, "/")] + "/node/worker-1"); code != http.StatusUnauthorized {
		t.Errorf("without the token: %d", code)
	}
	for path, want := range map[string]string{
		"/": `/node/worker-2"`, "/node/worker-1": "docker.io/library/postgres:15", "/node/worker-1/image?id=busybox": "Rules, in their order",
	} {
		if code, body := get(address + path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, without %q:\n%s", path, code, want, body)
		}
	}
	if code, body := get(address + "/node/nobody"); code != http.StatusBadGateway || !strings.Contains(body, "no agent on a node") {
		t.Errorf("a node that there is not: %d\n%s", code, body)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// One answer has nothing of the one before it: fields that are left out are empty.
func TestAnswersDoNotMix(t *testing.T) {
	c := newCluster(t, "worker-1")
	a := &agentAccess{access: access{output: "text"}, timeout: time.Minute, namespace: "ebb-system"}
	d, err := a.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	agents, err := d.Agents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client := agents[0].Client(t.Context())
	defer client.Close()

	screen := &top{access: a, client: client}
	s := showtest.Status()
	s.Paused = &page.Pause{By: "tester"}
	for _, s.Paused = range []*page.Pause{s.Paused, nil} {
		c.Become(s)
		if err := screen.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := screen.screen.Status.Paused; (got != nil) != (s.Paused != nil) {
			t.Errorf("ebb top: paused %+v, want %+v", got, s.Paused)
		}
	}

	busy := showtest.Busy() // it is in use; the first of the answer is not
	old := page.Images{Images: []page.Image{busy}}
	source := &pages{agentAccess: a, desk: d, heavy: map[string]heavy{"worker-1": {images: old}}}
	n, err := source.Node(t.Context(), "worker-1")
	if err != nil || len(n.Images.Images) == 0 || len(n.Images.Images[0].UsedBy) > 0 {
		t.Errorf("ebb ui: %v, %+v", err, n.Images)
	}
	if diff := cmp.Diff(busy, old.Images[0]); diff != "" {
		t.Errorf("what another page may be drawing has changed:\n%s", diff)
	}
}

// What takes an agent long is not asked for again at once if it failed, and not kept for nodes that no
// page shows any more.
func TestHeavyAnswers(t *testing.T) {
	c := newCluster(t, "worker-1")
	c.Broken = "/du"
	a := &agentAccess{access: access{output: "text"}, timeout: time.Minute, namespace: "ebb-system"}
	d, err := a.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	source := &pages{agentAccess: a, desk: d, heavy: map[string]heavy{"worker-2": {}}}
	for range 2 {
		n, err := source.Node(t.Context(), "worker-1")
		if err != nil || !strings.Contains(strings.Join(n.Missing, " "), "/du: it is broken") || len(n.Images.Images) == 0 {
			t.Errorf("%v, missing %q, %d images", err, n.Missing, len(n.Images.Images))
		}
	}
	asked := strings.Join(c.Asked(), "\n")
	if strings.Count(asked, "GET /du") != 1 || strings.Count(asked, "GET /images") != 1 {
		t.Errorf("asked for\n%s", asked)
	}
	if _, there := source.heavy["worker-2"]; there || len(source.heavy) != 1 {
		t.Errorf("%d nodes are kept", len(source.heavy))
	}
}
