package desktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/tools/await"
)

// Cluster has the pods of AllNodes, all on one kubelet.
type Cluster struct {
	Kubelet *Kubelet
	Admin   *rest.Config // named "admin"
	Reader  *rest.Config // named "reader": may list pods, and not exec
	Creator *rest.Config // named "creator": may create on pods/exec, and not get
	Getter  *rest.Config // named "getter": may get on pods/exec, and not create
}

const (
	version  = "0.2.0"
	patience = 30 * time.Second
)

type suite struct{ *Cluster }

// Run tests the desk on a cluster.
func Run(t *testing.T, c *Cluster) {
	s, before := suite{c}, goleak.IgnoreCurrent()
	t.Run("ask", s.ask)
	t.Run("agents", s.agents)
	t.Run("failures", s.failures)
	t.Run("gone", s.gone)
	t.Run("forbidden", s.forbidden)
	t.Run("cut", s.cut)
	t.Run("versions", s.versions)
	t.Run("cancelled", s.cancelled)
	t.Run("hangs", s.hangs)
	t.Run("many", s.many)
	awaitIdle(t, c.Kubelet)
	c.Kubelet.GiveUp()
	c.Kubelet.Server.CloseClientConnections()
	awaitGoroutines(t, before)
}

// awaitGoroutines waits until all goroutines that the desk started have ended. The library's pings
// end within 5 s.
func awaitGoroutines(t *testing.T, before goleak.Option) {
	t.Helper()
	await.Holds(t, patience, "the goroutines' end", func(context.Context) error { return goleak.Find(before) })
}

// awaitIdle waits until no command runs.
func awaitIdle(t *testing.T, k *Kubelet) {
	t.Helper()
	await.Holds(t, patience, "the commands' end", func(context.Context) error {
		if n := k.Running(); n > 0 {
			return fmt.Errorf("%d are left running", n)
		}
		return nil
	})
}

func (s suite) desk(t *testing.T, config *rest.Config, nodes ...string) *desk.Desk {
	t.Helper()
	d, err := desk.New(desk.Options{Config: config, Namespace: Namespace, Nodes: nodes, Version: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// client makes a client for the agent of one node.
func (s suite) client(t *testing.T, config *rest.Config, node string) *desk.Client {
	t.Helper()
	agents, err := s.desk(t, config, node).Agents(t.Context())
	if err != nil || len(agents) != 1 {
		t.Fatalf("%d agents, %v", len(agents), err)
	}
	c := agents[0].Client(t.Context())
	t.Cleanup(c.Close)
	return c
}

// ask checks that requests and answers of any size are carried one after the other on one
// connection, with the caller's name.
func (s suite) ask(t *testing.T) {
	c := s.client(t, s.Admin, "ok")
	s.Kubelet.Most()
	for _, body := range []string{"", "ebb", strings.Repeat("flow", 1<<18)} {
		var got struct{ Method, Body string }
		want := fmt.Sprintf("%q", body)
		if err := c.Ask(t.Context(), http.MethodPost, "/echo?x=y", body, &got); err != nil || got.Method != http.MethodPost || got.Body != want {
			t.Fatalf("%v, %.80v", err, got)
		}
	}
	r := s.Kubelet.LastRequest()
	if r.Header.Get(page.HeaderCaller) != "admin" || r.Header.Get(page.HeaderVersion) != version || r.URL.RawQuery != "x=y" {
		t.Errorf("%v %v", r.URL, r.Header)
	}
	var raw []byte
	if err := c.Ask(t.Context(), http.MethodGet, "/large", nil, &raw); err != nil || !bytes.Equal(raw, Large) {
		t.Errorf("%v, %d bytes", err, len(raw))
	}
	if most := s.Kubelet.Most(); most != 1 {
		t.Errorf("%d connections", most)
	}
	var refused *desk.Refused
	err := c.Ask(t.Context(), http.MethodGet, "/refused", nil, nil)
	if !errors.As(err, &refused) || refused.Code != http.StatusConflict || err.Error() != "another \ufffd[31mrun is on" || !bytes.Contains(refused.Body, []byte(`"plan"`)) {
		t.Errorf("%v", err)
	}
}

// agents checks that all agents are listed, page by page and in order, and that a node without one
// is named.
func (s suite) agents(t *testing.T) {
	all, err := s.desk(t, s.Reader).Agents(t.Context())
	if err != nil || len(all) != Many+len(Special) {
		t.Fatalf("%d agents, %v", len(all), err)
	}
	for i, a := range all[1:] {
		if a.Node <= all[i].Node || a.Pod != a.Node || a.Image != "registry.example.io/ebb:v1" || a.Version != "0.1.0" {
			t.Errorf("%+v behind %s", a, all[i].Node)
		}
	}
	if some, err := s.desk(t, s.Admin, "ok", "many-001", "ok").Agents(t.Context()); err != nil || len(some) != 2 || some[1].Node != "ok" {
		t.Errorf("%+v, %v", some, err)
	}
	if _, err := s.desk(t, s.Admin, "ok", "nobody\x1b").Agents(t.Context()); err == nil || !strings.Contains(err.Error(), "on node nobody\ufffd: does") {
		t.Errorf("%v", err)
	}
}

// failures checks that each error names the problem and its fix, on one line, whatever the
// node sends.
func (s suite) failures(t *testing.T) {
	for node, want := range map[string]string{
		"missing":  "no such file or directory: does ebb-agent run here",
		"old":      "the agent on node old is older than this command (0.2.0): it cannot be asked from a desk; upgrade it",
		"silent":   "/usr/bin/ebb-agent dial-stdio in pod silent ended with exit code 127 and no word",
		"restarts": "the agent does not run just now: kubectl -n " + Namespace + " describe pod restarts says why",
		"hostile":  "\ufffd]0;pwned\ufffd\ufffd\ufffd  spam \ufffd[2J",
	} {
		err := s.client(t, s.Admin, node).Ask(t.Context(), http.MethodGet, "/echo", nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", node, err, want)
			continue
		}
		if text := err.Error(); len(text) > 5<<10 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: %d bytes: %.80q", node, len(text), text)
		}
		if errors.Is(err, desk.ErrVersion) != (node == "old") {
			t.Errorf("%s: %v", node, err)
		}
	}
}

// gone checks the error for a pod that was replaced after it was listed.
func (s suite) gone(t *testing.T) {
	a := s.client(t, s.Admin, "ok").Agent
	a.Pod = "gone"
	c := a.Client(t.Context())
	defer c.Close()
	if err := c.Ask(t.Context(), http.MethodGet, "/echo", nil, nil); err == nil || err.Error() != "pod gone is gone: another one takes its place; ask again" {
		t.Error(err)
	}
}

// forbidden checks that a user who may list and not exec learns which right is missing, and what it
// grants. The right to create is enough, for SPDY.
func (s suite) forbidden(t *testing.T) {
	for name, config := range map[string]*rest.Config{"reader": s.Reader, "getter": s.Getter} {
		err := s.client(t, config, "ok").Ask(t.Context(), http.MethodGet, "/echo", nil, nil)
		want := "user " + name + " may not exec into the agents' pods: that takes create and get on pods/exec in namespace " + Namespace + ", which is root on their nodes"
		if !errors.Is(err, desk.ErrForbidden) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := s.client(t, s.Creator, "ok").Ask(t.Context(), http.MethodGet, "/echo", nil, nil); err != nil {
		t.Error(err)
	}
}

// cut checks that an incomplete answer is an error.
func (s suite) cut(t *testing.T) {
	for _, tc := range []struct{ node, page, want string }{
		{"ok", "/aborted", "the connection ended in the middle of the answer"},
		{"killed", "/half", "exit code 137"},
		{"dropped", "/half", ""},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := s.client(t, s.Admin, tc.node).Ask(ctx, http.MethodGet, tc.page, nil, new([]byte))
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.node, err, tc.want)
		}
		t.Logf("%s: %v", tc.node, err)
		cancel()
	}
}

// versions checks that the error for an unknown page compares the versions.
func (s suite) versions(t *testing.T) {
	c := s.client(t, s.Admin, "ok")
	err := c.Ask(t.Context(), http.MethodGet, "/tomorrow?q", nil, nil)
	const want = "the agent on node ok has no /tomorrow: it is 0.1.0, older than this command (0.2.0); the command of its version is " +
		"kubectl -n " + Namespace + " exec ok -c agent -- /usr/bin/ebb"
	if !errors.Is(err, desk.ErrVersion) || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

// cancelled checks that the end of a request's context ends the request, and the command in the
// pod.
func (s suite) cancelled(t *testing.T) {
	c := s.client(t, s.Admin, "ok")
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := c.Do(ctx, http.MethodGet, "/half", nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	_ = resp.Body.Close()
	awaitIdle(t, s.Kubelet)
	soon, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := c.Ask(soon, http.MethodGet, "/slow", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	awaitIdle(t, s.Kubelet)
}

// hangs checks that a node that does not answer affects only its own result.
func (s suite) hangs(t *testing.T) {
	agents, err := s.desk(t, s.Admin, Special...).Agents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	results := desk.Each(t.Context(), agents, desk.InFlight, 2*time.Second, echo)
	for i, r := range results {
		if r.Agent.Node != agents[i].Node {
			t.Errorf("%s in the place of %s", r.Agent.Node, agents[i].Node)
		}
		switch r.Agent.Node {
		case "ok", "killed", "dropped":
			if r.Err != nil && r.Agent.Node == "ok" {
				t.Errorf("%s: %v", r.Agent.Node, r.Err)
			}
		case "hangs":
			if !errors.Is(r.Err, context.DeadlineExceeded) || r.Err.Error() != "no answer within 2s" {
				t.Errorf("hangs: %v", r.Err)
			}
		default:
			if r.Err == nil {
				t.Errorf("%s answered", r.Agent.Node)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, r := range desk.Each(ctx, agents, desk.InFlight, patience, echo) {
		if !errors.Is(r.Err, context.Canceled) {
			t.Errorf("%s: %v", r.Agent.Node, r.Err)
		}
	}
}

func echo(ctx context.Context, c *desk.Client) (string, error) {
	var got struct{ Body string }
	err := c.Ask(ctx, http.MethodPost, "/echo", c.Agent.Node, &got)
	return got.Body, err
}

// many checks that all agents of a large cluster answer within seconds, and that no more than
// InFlight are asked at the same time.
func (s suite) many(t *testing.T) {
	awaitIdle(t, s.Kubelet)
	s.Kubelet.Most()
	var now, together atomic.Int64
	begun := time.Now()
	agents, err := s.desk(t, s.Admin, ManyNodes()...).Agents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	listed := time.Since(begun)
	results := desk.Each(t.Context(), agents, desk.InFlight, patience, func(ctx context.Context, c *desk.Client) (string, error) {
		together.Store(max(together.Load(), now.Add(1)))
		defer now.Add(-1)
		return echo(ctx, c)
	})
	for _, r := range results {
		if want := fmt.Sprintf("%q", r.Agent.Node); r.Err != nil || r.Value != want {
			t.Errorf("%s: %q, %v", r.Agent.Node, r.Value, r.Err)
		}
	}
	t.Logf("%d agents asked in %s, of which %s to list them; at most %d at the same time, and %d commands in pods", len(agents),
		time.Since(begun).Round(time.Millisecond), listed.Round(time.Millisecond), together.Load(), s.Kubelet.Most())
	if together.Load() > desk.InFlight {
		t.Errorf("%d were asked at the same time", together.Load())
	}
}
