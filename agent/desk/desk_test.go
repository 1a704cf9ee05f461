package desk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/desk/desktest"
	"github.com/ebb-agent/ebb/agent/node/page"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDesk(t *testing.T) { desktest.Run(t, desktest.NewCluster(t)) }

// TestLocal: on a node, the agent is asked on its socket, and no API server is.
func TestLocal(t *testing.T) {
	k := desktest.NewKubelet(t, func(h http.Handler) (*httptest.Server, error) { return httptest.NewServer(h), nil })
	ask := func(socket, page string) error {
		d, err := desk.New(desk.Options{Socket: socket, Version: "0.1.0"})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		agents, err := d.Agents(t.Context())
		if err != nil || len(agents) != 1 || agents[0].Node == "" || agents[0].Pod != "" {
			t.Fatalf("%+v, %v", agents, err)
		}
		results := desk.Each(t.Context(), agents, 1, time.Minute, func(ctx context.Context, c *desk.Client) (out struct{ Method string }, err error) {
			return out, c.Ask(ctx, http.MethodGet, page, nil, &out)
		})
		if r := results[0]; r.Err == nil && r.Value.Method != http.MethodGet {
			t.Errorf("%+v", r)
		}
		return results[0].Err
	}
	if err := ask(k.Socket(), "/echo"); err != nil {
		t.Error(err)
	}
	if got := k.LastRequest().Header.Get(page.HeaderCaller); !strings.HasPrefix(got, fmt.Sprintf("uid %d", os.Getuid())) {
		t.Errorf("%q", got)
	}
	for page, want := range map[string]string{
		"/tomorrow": "has no /tomorrow: it is 0.1.0, another build than this command (0.1.0)",
		"/large":    "cannot decode the answer: json: cannot unmarshal",
	} {
		if err := ask(k.Socket(), page); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "kubectl") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	d, err := desk.New(desk.Options{Socket: k.Socket()})
	if err != nil {
		t.Fatal(err)
	}
	agents, err := d.Agents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := agents[0].Client(t.Context())
	resp, err := c.Do(t.Context(), http.MethodGet, "/half", nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Close() // in the middle of an answer
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("half an answer is whole")
	}
	_ = resp.Body.Close()
	if err := ask("/none", "/echo"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "connect to ebb-agent at /none: ") {
		t.Error(err)
	}
	if _, err := desk.New(desk.Options{Socket: "/s", Nodes: []string{"n"}}); err == nil {
		t.Error("a socket and a node were accepted")
	}
}

// TestNoAPIServer: every question about agents is an error that names the request.
func TestNoAPIServer(t *testing.T) {
	d, err := desk.New(desk.Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Agents(t.Context()); err == nil || !strings.Contains(err.Error(), "list the agents' pods: ") {
		t.Error(err)
	}
	if _, err := d.Caller(t.Context()); err == nil || !strings.Contains(err.Error(), "who you are: ") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other, err := desk.New(desk.Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Caller(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestInvalidRequest: a request that an agent of another version does not understand names both versions.
func TestInvalidRequest(t *testing.T) {
	for theirs, want := range map[string]string{
		"0.1.0": `the request cannot be read: unknown field "x" (the agent is 0.1.0, older than this command (0.2.0))`,
		"0.3.0": `the request cannot be read: unknown field "x" (the agent is 0.3.0, newer than this command (0.2.0))`,
		"":      `the request cannot be read: unknown field "x" (the agent is older than this command (0.2.0))`,
		"0.2.0": `the request cannot be read: unknown field "x"`,
	} {
		path := filepath.Join(t.TempDir(), "agent.sock")
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		server := &httptest.Server{Listener: listener, Config: &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(page.HeaderVersion, theirs)
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"the request cannot be read: unknown field \"x\""}`)
		})}}
		server.Start()
		d, err := desk.New(desk.Options{Socket: path, Version: "0.2.0"})
		if err != nil {
			t.Fatal(err)
		}
		agents, err := d.Agents(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := agents[0].Client(t.Context())
		var refused *desk.Refused
		if err := c.Ask(t.Context(), http.MethodPost, "/plan", map[string]int{"x": 1}, nil); !errors.As(err, &refused) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		c.Close()
		server.Close()
	}
}
