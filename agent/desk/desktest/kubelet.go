package desktest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/utils/exec"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/stdio"
)

// Namespace is the namespace of the agents' pods.
const Namespace = "ebb-test"

// Kubelet is the kubelet of all nodes. The name of a pod decides what the command in it does.
type Kubelet struct {
	Server *httptest.Server
	GiveUp context.CancelFunc // ends the execs that hang

	agent  *http.Server
	socket string // of the agent
	giveUp context.Context

	mu            sync.Mutex
	running, most int
	requests      []*http.Request // that the agent received at /echo
}

// NewKubelet is StartKubelet for a test. The kubelet is closed when the test ends.
func NewKubelet(t testing.TB, start func(http.Handler) (*httptest.Server, error)) *Kubelet {
	t.Helper()
	k, err := StartKubelet(t.TempDir(), start)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// StartKubelet starts a kubelet and a fake agent, whose socket is in dir. start makes the kubelet's
// server.
func StartKubelet(dir string, start func(http.Handler) (*httptest.Server, error)) (*Kubelet, error) {
	k := &Kubelet{socket: filepath.Join(dir, "agent.sock")}
	listener, err := net.Listen("unix", k.socket)
	if err != nil {
		return nil, err
	}
	k.giveUp, k.GiveUp = context.WithCancel(context.Background())
	k.agent = &http.Server{Handler: k.pages(), ReadHeaderTimeout: time.Minute}
	go func() { _ = k.agent.Serve(listener) }() // ends with Close
	if k.Server, err = start(http.HandlerFunc(k.serveExec)); err != nil {
		_ = k.agent.Close()
		return nil, err
	}
	return k, nil
}

// Close ends the kubelet and its agent.
func (k *Kubelet) Close() {
	k.GiveUp()
	k.Server.Close()
	_ = k.agent.Close()
}

// pages returns the pages of the fake agent.
func (k *Kubelet) pages() http.Handler {
	pages := http.NewServeMux()
	pages.HandleFunc("/echo", k.echo)
	pages.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	pages.HandleFunc("/refused", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"error":"another \u001b[31mrun is on","plan":{"images":3}}`)
	})
	pages.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(Large) })
	pages.HandleFunc("/aborted", func(w http.ResponseWriter, _ *http.Request) { half(w); panic(http.ErrAbortHandler) })
	pages.HandleFunc("/half", func(w http.ResponseWriter, r *http.Request) { half(w); <-r.Context().Done() })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(page.HeaderVersion, "0.1.0")
		pages.ServeHTTP(w, r)
	})
}

// Socket returns the path of the agent's socket.
func (k *Kubelet) Socket() string { return k.socket }

// Use makes commands connect to another agent, at this socket.
func (k *Kubelet) Use(socket string) { k.socket = socket }

// Large is an answer of 3.25 MiB.
var Large = []byte(`"` + strings.Repeat("ebb and flow ", 1<<18) + `"`)

func (k *Kubelet) echo(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	k.requests = append(k.requests, r)
	k.mu.Unlock()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, `{"method":%q,"body":%q}`, r.Method, data)
}

// half sends the first half of an answer.
func half(w http.ResponseWriter) {
	w.Header().Set("Content-Length", "1000")
	fmt.Fprintf(w, `"%0498d`, 0)
	_ = http.NewResponseController(w).Flush()
}

// LastRequest returns the last request that the agent received at /echo.
func (k *Kubelet) LastRequest() *http.Request {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.requests[len(k.requests)-1]
}

// Most returns the largest number of commands that ran at the same time since the previous call.
func (k *Kubelet) Most() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	most := k.most
	k.most = k.running
	return most
}

// Running is how many commands run now.
func (k *Kubelet) Running() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.running
}

func (k *Kubelet) count(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running += n
	k.most = max(k.most, k.running)
}

// serveExec serves /exec/NAMESPACE/POD/CONTAINER, as kubelets do.
func (k *Kubelet) serveExec(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) != 4 || parts[0] != "exec" || parts[1] != Namespace {
		http.NotFound(w, r)
		return
	}
	if parts[2] == "hangs" {
		<-k.giveUp.Done() // not even the API server gets an answer
		return
	}
	k.Exec(w, r, parts[2], parts[3])
}

// Exec runs the command of an exec request.
func (k *Kubelet) Exec(w http.ResponseWriter, r *http.Request, pod, container string) {
	command := r.URL.Query()["command"]
	if container != "agent" || !slices.Equal(command, []string{"/usr/bin/ebb-agent", "dial-stdio"}) {
		http.Error(w, fmt.Sprintf("unexpected command: %q in %q", command, container), http.StatusBadRequest)
		return
	}
	if pod == "restarts" {
		http.Error(w, `container not found ("agent")`, http.StatusInternalServerError)
		return
	}
	k.count(1)
	defer k.count(-1)
	h := &hijacked{ResponseWriter: w}
	r = r.WithContext(context.WithValue(r.Context(), hijackedKey{}, h))
	remotecommand.ServeExec(h, r, k, pod, "", container, command, &remotecommand.Options{Stdin: true, Stdout: true, Stderr: true},
		time.Hour, time.Minute, []string{remotecommand.StreamProtocolV4Name})
}

// ExecInContainer runs the command. The name of the pod decides what the command does.
func (k *Kubelet) ExecInContainer(ctx context.Context, pod, _, _ string, _ []string, in io.Reader, out, errs io.WriteCloser,
	_ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	exit := func(code int, say string) error {
		_, _ = io.WriteString(errs, say)
		if code == 0 {
			return nil
		}
		return exec.CodeExitError{Err: fmt.Errorf("exit code %d", code), Code: code}
	}
	socket := k.socket
	switch pod {
	case "hangs":
		_, _ = io.Copy(io.Discard, in)
		return nil
	case "missing":
		socket += ".none"
	case "old":
		return exit(1, "ebb-agent: unknown command \"dial-stdio\" for \"ebb-agent\"\n")
	case "hostile":
		return exit(1, "ebb-agent: \x1b]0;pwned\x07\u202e\x00\r\n"+strings.Repeat("spam \x1b[2J", 1<<17))
	case "silent":
		return exit(127, "")
	case "killed", "dropped":
		carried := &carried{Writer: out, some: make(chan struct{})}
		go func() { // ends with the streams
			_ = stdio.Dial(ctx, socket, in, carried)
			carried.signal()
		}()
		<-carried.some
		if pod == "dropped" {
			_ = ctx.Value(hijackedKey{}).(*hijacked).conn.Close()
		}
		return exit(137, "")
	}
	if err := stdio.Dial(ctx, socket, in, out); err != nil {
		return exit(1, fmt.Sprintln("ebb-agent:", err))
	}
	return nil
}

// carried closes some once 500 bytes of an answer have been written.
type carried struct {
	io.Writer
	n    int
	once sync.Once
	some chan struct{}
}

func (c *carried) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	if c.n += n; c.n >= 500 {
		c.signal()
	}
	return n, err
}

func (c *carried) signal() { c.once.Do(func() { close(c.some) }) }

type hijackedKey struct{}

// hijacked keeps the connection under an exec.
type hijacked struct {
	http.ResponseWriter
	conn net.Conn
}

func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := h.ResponseWriter.(http.Hijacker).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.conn = conn
	return lingering{conn}, rw, nil
}

// lingering is a connection whose Close ends only the sending direction at first. The connection is
// closed once the other end has closed it, or after patience. Closing a connection with unread data
// sends a reset, which discards data that is still on its way.
type lingering struct{ net.Conn }

func (l lingering) Close() error {
	half, ok := l.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return l.Conn.Close()
	}
	go func() {
		_ = l.SetReadDeadline(time.Now().Add(patience))
		_, _ = io.Copy(io.Discard, l.Conn)
		_ = l.Conn.Close()
	}()
	return nil
}
