package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/agent/program/programtest"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/tools/await"
)

// TestReadyReportsThatItObserves: /readyz reports that the agent removes nothing, and
// how to change that.
func TestReadyReportsThatItObserves(t *testing.T) {
	for mode, want := range map[config.Mode]string{
		config.Default().Mode: "ok (observe: nothing is removed until mode is enforce)\n",
		config.ModeEnforce:    "ok\n",
	} {
		h := &health{mode: mode, conditions: condition.NewSet(slog.New(slog.DiscardHandler))}
		w := httptest.NewRecorder()
		h.readyz(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		if w.Code != http.StatusOK || w.Body.String() != want {
			t.Errorf("%s: %d %q, want %q", mode, w.Code, w.Body, want)
		}
		missing := "no runtime"
		h.notReady.Store(&missing)
		w = httptest.NewRecorder()
		h.readyz(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), missing) {
			t.Errorf("%s, not ready: %d %q", mode, w.Code, w.Body)
		}
	}
}

// Once events are back, the agent is ready again without the pause that keeps looks apart.
func TestReadySoonAfterEventsAreBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.five()
		w.pass(time.Minute)
		ready := func() bool { return w.agent.health.notReady.Load() == nil }
		for range 2 { // the second time there was a look just now
			w.rt.CutEvents(errors.New("containerd restarts"))
			w.pass(100 * time.Millisecond)
			if ready() {
				t.Error("ready without events")
			}
			w.rt.ResumeEvents()
			w.pass(time.Second)
			if !ready() {
				t.Error("not ready a second after events are back")
			}
		}
	})
}

// What cannot be read is missing in a scrape, which reports that, and takes nothing else away.
func TestScrapeWithoutWhatCannotBeRead(t *testing.T) {
	inWorld(t, func(w *world) {
		w.five()
		w.disk.mount("/var/lib/kubelet", otherDev, "ext4", func() image.Disk { return image.Disk{CapacityBytes: size, AvailableBytes: size} })
		w.pass(time.Second)
		scrape := func() string {
			r := httptest.NewRecorder()
			program.Metrics(w.agent.registry).ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
			if r.Code != http.StatusOK {
				t.Fatalf("status %d: %s", r.Code, r.Body)
			}
			return r.Body.String()
		}
		check := func(readable int) {
			t.Helper()
			body := scrape()
			for _, line := range []string{
				fmt.Sprintf(`ebb_node_filesystem_readable{filesystem="kubelet"} %d`, readable),
				fmt.Sprintf(`ebb_node_probe_counters_readable{counters="writers"} %d`, readable),
				fmt.Sprintf(`ebb_node_probe_counters_readable{counters="heat"} %d`, readable),
				`ebb_node_probe_counters_readable{counters="events"} 1`,
				`ebb_node_filesystem_readable{filesystem="images"} 1`,
				`ebb_node_filesystem_capacity_bytes{filesystem="images"} 1.048576e+09`,
				`ebb_node_filesystem_threshold_ratio{filesystem="kubelet",resource="bytes",threshold="high"} 0.85`,
				`ebb_node_ready 1`,
			} {
				if !strings.Contains(body, line+"\n") {
					t.Errorf("no %s", line)
				}
			}
			if got := strings.Contains(body, `capacity_bytes{filesystem="kubelet"}`); got != (readable == 1) {
				t.Errorf("its capacity is exported: %v", got)
			}
		}
		check(1)
		w.disk.mu.Lock() // without an event
		was := w.disk.mounts["/var/lib/kubelet"]
		delete(w.disk.mounts, "/var/lib/kubelet")
		w.disk.mu.Unlock()
		w.kernel.FailWriters(errors.New("no writers"))
		w.kernel.failHeat = errors.New("no heat")
		check(0)
		w.disk.mu.Lock()
		w.disk.mounts["/var/lib/kubelet"] = was
		w.disk.mu.Unlock()
		w.kernel.FailWriters(nil)
		w.kernel.failHeat = nil
		check(1)
	})
}

// TestOnNode: without a host, the port of metrics is on the node's address alone.
func TestOnNode(t *testing.T) {
	for _, c := range []struct{ node, address, want string }{
		{"10.0.0.7", ":9478", "10.0.0.7:9478"}, {"fd00::7", ":9478", "[fd00::7]:9478"}, {"", ":9478", ":9478"},
		{"10.0.0.7", "127.0.0.1:9478", "127.0.0.1:9478"}, {"10.0.0.7", "[::]:9478", "[::]:9478"}, {"10.0.0.7", "0.0.0.0:9478", "0.0.0.0:9478"},
	} {
		t.Setenv("NODE_IP", c.node)
		if got := onNode(c.address); got != c.want {
			t.Errorf("%q on %q: %q, want %q", c.address, c.node, got, c.want)
		}
	}

	t.Setenv("NODE_IP", "127.0.0.2")
	a := newAgent(Options{Config: config.Default(), Log: slog.New(slog.DiscardHandler)}, nil)
	listener, err := a.admin.listen(t.Context(), ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if host, _, _ := net.SplitHostPort(listener.Addr().String()); host != "127.0.0.2" {
		t.Errorf("it listens on %s", host)
	}
}

// TestNodeAddressIsMissing: an address from NODE_IP that the node does not have does not end the agent; a
// configured one does.
func TestNodeAddressIsMissing(t *testing.T) {
	const none = "192.0.2.1" // for documentation: no machine has it
	if l, err := net.Listen("tcp", none+":0"); err == nil {
		l.Close()
		t.Skip("this machine binds addresses that it does not have (ip_nonlocal_bind)")
	}
	var log bytes.Buffer
	a := newAgent(Options{Config: config.Default(), Log: slog.New(slog.NewTextHandler(&log, nil))}, nil)
	if _, err := a.admin.listen(t.Context(), none+":9478"); err == nil || !strings.Contains(err.Error(), "server.address: listen tcp "+none+":9478") {
		t.Errorf("configured: %v", err)
	}
	t.Setenv("NODE_IP", none)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if listener, err := a.admin.listen(ctx, ":9478"); listener != nil || err != nil {
		t.Errorf("of the node: %v, %v", listener, err)
	}
	if !strings.Contains(log.String(), "agent.metrics.everyAddress=true") {
		t.Errorf("the log does not name the fix: %s", log.String())
	}
}

// TestProtected: with a web configuration file metrics take TLS and a password, and health takes
// none at its own address, where there is nothing else.
func TestProtected(t *testing.T) {
	c := config.Default()
	file, client := programtest.Web(t)
	c.Server = config.Server{Address: programtest.FreeAddress(t), HealthAddress: programtest.FreeAddress(t), WebConfigFile: file}
	a := newAgent(Options{Config: c, Log: slog.New(slog.DiscardHandler)}, nil)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- a.admin.serve(ctx) }()
	programtest.Answers(t, []programtest.Answer{
		{Client: client, URL: "https://" + c.Server.Address + "/metrics", Password: programtest.Password, Status: 200},
		{Client: client, URL: "https://" + c.Server.Address + "/metrics", Password: "wrong", Status: 401},
		{Client: client, URL: "https://" + c.Server.Address + "/metrics", Status: 401},
		{Client: client, URL: "https://" + c.Server.Address + "/readyz", Status: 401},
		{Client: &http.Client{}, URL: "http://" + c.Server.Address + "/metrics", Password: programtest.Password, Status: 400},
		{Client: &http.Client{}, URL: "http://" + c.Server.HealthAddress + "/healthz", Status: 200},
		{Client: &http.Client{}, URL: "http://" + c.Server.HealthAddress + "/readyz", Status: 200},
		{Client: &http.Client{}, URL: "http://" + c.Server.HealthAddress + "/metrics", Status: 404},
	})
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}

	if err := os.WriteFile(file, []byte("basic_auth_user: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := a.admin.serve(t.Context())
	if err == nil || !strings.Contains(err.Error(), "server.webConfigFile: "+file+": ") || !strings.Contains(err.Error(), "basic_auth_user") {
		t.Errorf("a bad file: %v", err)
	}
}

// TestOnlyRootMayAsk: what names images, or changes something, is served on the socket alone, and the
// socket is root's.
func TestOnlyRootMayAsk(t *testing.T) {
	open := t.TempDir()
	for _, dir := range []string{open, filepath.Dir(open)} { // so that only the socket itself refuses
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := config.Default()
	c.Server = config.Server{Address: programtest.FreeAddress(t), AdminSocket: filepath.Join(open, "agent.sock")}
	a := newAgent(Options{Config: c, Log: slog.New(slog.DiscardHandler)}, nil)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- a.admin.serve(ctx) }()
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	answers := []programtest.Answer{{Client: &http.Client{}, URL: "http://" + c.Server.Address + "/healthz", Status: 200}}
	for _, path := range []string{"status", "images", "why?image=a", "plan", "reclaim", "du", "history", "past", "pause", "resume", "containers", "writers", "heat", ""} {
		answers = append(answers, programtest.Answer{Client: &http.Client{}, URL: "http://" + c.Server.Address + "/" + path, Status: 404})
	}
	programtest.Answers(t, answers)

	var info os.FileInfo
	await.Holds(t, 20*time.Second, "a socket for its owner alone", func(context.Context) (err error) { // chmod comes after listen
		if info, err = os.Stat(c.Server.AdminSocket); err == nil && info.Mode().Perm() != 0o600 {
			err = errors.New(info.Mode().String())
		}
		return err
	})
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
		t.Errorf("the socket belongs to user %d", owner)
	}
	if os.Geteuid() != 0 {
		return // only root can act as another user
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, err := unix.SetfsuidRetUid(65534); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", c.Server.AdminSocket)
	if _, back := unix.SetfsuidRetUid(0); back != nil {
		t.Fatal(back)
	}
	if !errors.Is(err, syscall.EACCES) {
		t.Errorf("another user connects: %v", err)
	}
	if conn != nil {
		_ = conn.Close()
	}
}
