package cluster

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/agent/program/programtest"
	"github.com/ebb-agent/ebb/policy/gc"
)

// TestServer: what changes something, and what names objects, is on the socket alone, which only its
// owner can open.
func TestServer(t *testing.T) {
	dir, err := os.MkdirTemp("", "ebb") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	stale, err := net.Listen("unix", socket) // left behind by one that was killed
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()

	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := port.Addr().String()
	port.Close()
	cfg := enforcing()
	cfg.Server = config.Server{Address: address, AdminSocket: socket}
	api := newFake()
	c := New(Options{Config: cfg, API: api, Journal: api.kept, Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics()})
	ctx, stop := context.WithCancel(t.Context())
	served, ran := make(chan error, 1), make(chan error, 1)
	go func() { served <- c.Serve(ctx) }()
	tcp := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	unix := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	ask := func(client *http.Client, method, path string) (int, string) {
		for {
			req, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			var refused *net.OpError
			if errors.As(err, &refused) && refused.Op == "dial" {
				time.Sleep(time.Millisecond) // it has not begun to listen
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			return resp.StatusCode, string(body)
		}
	}
	type row struct {
		client       *http.Client
		method, path string
		code         int
		contains     string
	}
	check := func(rows []row) {
		t.Helper()
		for _, r := range rows {
			if code, body := ask(r.client, r.method, r.path); code != r.code || !strings.Contains(body, r.contains) {
				t.Errorf("%s %s: %d %.200q, want %d %q", r.method, r.path, code, body, r.code, r.contains)
			}
		}
	}
	check([]row{ // a standby
		{tcp, "GET", "/healthz", 200, "ok"}, {tcp, "GET", "/readyz", 200, "waiting for the lease"}, {unix, "GET", "/types", 503, "does not lead"},
		{tcp, "GET", "/metrics", 200, "ebb_controller_leader 0"}, {unix, "GET", "/explain?apiVersion=v1&kind=Pod&name=x&uid=1", 503, "does not lead"},
		{unix, "GET", "/decisions", 200, "[]"},
	})
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info.Mode(), err)
	}
	if l, err := program.ListenPrivately(socket); err == nil || !strings.Contains(err.Error(), "another process serves it") {
		t.Errorf("a second one: %v, %v", l, err)
	}
	api.fault("Set", errors.New("a <b>webhook</b> is down"))
	go func() { ran <- c.Run(ctx) }()
	for code := 503; code != 200 || !c.loop.leads.Load(); { // until all was listed
		code, _ = ask(tcp, "GET", "/readyz")
	}
	pod := api.put(gc.Object{APIVersion: "v1", Kind: "Pod", Namespace: "a", Name: "p"})
	long := strings.Repeat("x", 600)
	for text := ""; !strings.Contains(text, "no_owners"); { // until it was observed
		_, text = ask(unix, "GET", "/explain?apiVersion=v1&kind=Pod&namespace=a&name=p&uid="+pod.UID)
	}
	check([]row{
		{tcp, "POST", "/control/pause", 404, ""}, {tcp, "POST", "/control/resume", 404, ""},
		{tcp, "POST", "/control/confirm-lost?node=a", 404, ""}, {unix, "POST", "/control/confirm-lost", 400, "want the names of Nodes"},
		{unix, "POST", "/control/confirm-lost?node=a", 404, `nothing waits for these Nodes: ["a"]`}, {unix, "GET", "/lost-nodes", 200, "[]"},
		{tcp, "POST", "/metrics", 405, ""},
		{tcp, "GET", "/readyz", 200, "sets.apps apps/v1: unreadable"}, {tcp, "GET", "/readyz?verbose", 200, "pods v1: synced"},
		{unix, "GET", "/types", 200, `"why": "a \u003cb\u003ewebhook`}, {tcp, "GET", "/metrics", 200, `ebb_controller_objects{type="pods"} 1`},
		{tcp, "GET", "/metrics", 200, `ebb_controller_types{state="unreadable"} 1`},
		{unix, "GET", "/explain", 400, "want apiVersion, kind and name"}, {unix, "GET", "/explain?name=" + long, 400, "at most"},
		{unix, "GET", "/explain?name=a&name=b", 400, "want one value"},
		{unix, "GET", "/explain?apiVersion=v1&kind=Pod&namespace=a&name=p", 200, `"reason": "no_owners"`},
		{unix, "GET", "/explain?apiVersion=v1&kind=Pod&namespace=a&name=none", 503, "is not there"},
		{unix, "GET", "/explain?apiVersion=v9&kind=Pod&namespace=a&name=none", 503, "not a type that is served"},
		{unix, "POST", "/control/pause", 200, "nothing is on its way"}, {tcp, "GET", "/readyz", 200, "ok (paused by hand)"},
		{unix, "POST", "/control/resume", 200, "resumed"},
		{unix, "GET", "/healthz", 200, "ok"},
	})
	for _, path := range []string{"/explain", "/decisions", "/cascades", "/collectors", "/lost-nodes", "/types"} {
		check([]row{{tcp, "GET", path, 404, ""}})
	}
	paused := cfg
	paused.Paused = true
	if err := c.Configure(t.Context(), paused); err != nil {
		t.Fatal(err)
	}
	check([]row{{unix, "POST", "/control/resume", 409, "paused: true"}})
	stop()
	if err := errors.Join(<-served, <-ran); err != nil {
		t.Error(err)
	}
}

// TestSocketOfOneThatEnds: a predecessor that ends takes its socket away, which may be
// between any two looks of its successor.
func TestSocketOfOneThatEnds(t *testing.T) {
	dir, err := os.MkdirTemp("", "ebb") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	for n := 0; n < 2000 && !t.Failed(); n++ {
		predecessor, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- predecessor.Close() }()
		l, err := program.ListenPrivately(path)
		if err == nil {
			err = l.Close()
		}
		if err != nil && !strings.Contains(err.Error(), "another process serves it") {
			t.Errorf("round %d: %v", n, err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestProtected: with a web configuration file metrics take TLS and a password, and health takes
// none at its own address, where there is nothing else.
func TestProtected(t *testing.T) {
	cfg := enforcing()
	file, client := programtest.Web(t)
	cfg.Server = config.Server{Address: programtest.FreeAddress(t), HealthAddress: programtest.FreeAddress(t), WebConfigFile: file}
	api := newFake()
	c := New(Options{Config: cfg, API: api, Journal: api.kept, Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics()})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- c.Serve(ctx) }()
	programtest.Answers(t, []programtest.Answer{
		{Client: client, URL: "https://" + cfg.Server.Address + "/metrics", Password: programtest.Password, Status: 200},
		{Client: client, URL: "https://" + cfg.Server.Address + "/metrics", Password: "wrong", Status: 401},
		{Client: client, URL: "https://" + cfg.Server.Address + "/decisions", Status: 401},
		{Client: &http.Client{}, URL: "http://" + cfg.Server.Address + "/metrics", Password: programtest.Password, Status: 400},
		{Client: &http.Client{}, URL: "http://" + cfg.Server.HealthAddress + "/healthz", Status: 200},
		{Client: &http.Client{}, URL: "http://" + cfg.Server.HealthAddress + "/readyz", Status: 200},
		{Client: &http.Client{}, URL: "http://" + cfg.Server.HealthAddress + "/metrics", Status: 404},
		{Client: &http.Client{}, URL: "http://" + cfg.Server.HealthAddress + "/decisions", Status: 404},
	})
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}

	if err := os.WriteFile(file, []byte("basic_auth_user: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := c.Serve(t.Context())
	if err == nil || !strings.Contains(err.Error(), "server.webConfigFile: "+file+": ") || !strings.Contains(err.Error(), "basic_auth_user") {
		t.Errorf("a bad file: %v", err)
	}
}
