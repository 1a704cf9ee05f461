package desk

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
)

// maxStderr bounds how many bytes of a command's standard error are kept.
const maxStderr = 4 << 10

// grace is how long a command may take to end by itself after the end of its input. Then it is cut
// off. A command that is cut off ends too, but later, and so do the library's goroutines.
const grace = time.Second

// conn is a connection to an agent, over the standard streams of a command in its pod.
type conn struct {
	net.Conn // our end of a pipe
	life     context.Context
	close    sync.Once
	cut      context.CancelFunc
	done     chan struct{} // closed when the command has ended, or could not start
	err      error         // why, once done is closed; nil: without an error
}

// exec starts "ebb-agent dial-stdio" in an agent's pod. It returns once the API server has accepted
// the exec. Whether the kubelet accepted it is known at the first read. The connection ends with
// life at the latest.
func (a Agent) exec(ctx, life context.Context) (*conn, error) {
	var refusal error
	query := url.Values{"container": {AgentContainer}, "command": {agentProgram, "dial-stdio"}, "stdin": {"true"}}
	executor, err := a.desk.executor(a.Pod, query, &refusal)
	if err != nil {
		return nil, err
	}
	stream, cut := streamContext(life)
	ours, theirs := net.Pipe()
	c := &conn{Conn: ours, life: life, cut: cut, done: make(chan struct{})}
	closing := context.AfterFunc(life, func() { _ = c.Close() })
	input, stderr := &input{Reader: theirs, begun: make(chan struct{})}, &head{}
	go func() {
		err := executor.StreamWithContext(stream, remotecommand.StreamOptions{Stdin: input, Stdout: theirs, Stderr: stderr})
		c.err = a.explain(life, clearer(err, refusal), stderr.String())
		close(c.done)
		_ = theirs.Close()
		closing()
		cut()
	}()
	select {
	case <-input.begun:
		return c, nil
	case <-c.done:
		if err = c.err; err == nil {
			err = io.ErrUnexpectedEOF
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	_ = c.Close()
	return nil, err
}

// streamContext returns a context that ends one grace after the deadline of life. It does not end
// when life is cancelled.
func streamContext(life context.Context) (context.Context, context.CancelFunc) {
	// Without this, the library would also write errors to this process's standard error.
	stream := klog.NewContext(context.WithoutCancel(life), logr.Discard())
	if end, ok := life.Deadline(); ok {
		return context.WithDeadline(stream, end.Add(grace))
	}
	return context.WithCancel(stream)
}

// executor makes an executor for one exec: it is not for concurrent use. query has the container
// and the command. Standard output and standard error are streamed. If WebSockets fail, refusal is
// set to their error.
func (d *Desk) executor(pod string, query url.Values, refusal *error) (remotecommand.Executor, error) {
	u := *d.server.JoinPath("api/v1/namespaces", d.o.Namespace, "pods", pod, "exec")
	query.Set("stdout", "true")
	query.Set("stderr", "true")
	u.RawQuery = query.Encode()
	spdy, err := remotecommand.NewSPDYExecutor(d.o.Config, http.MethodPost, &u)
	if err != nil {
		return nil, err
	}
	websocket, err := remotecommand.NewWebSocketExecutor(d.o.Config, http.MethodGet, u.String())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		*refusal = err
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

// clearer returns the API server's own error if that is why both protocols were refused. Otherwise
// it returns err. The library returns that error only for WebSockets.
func clearer(err, refusal error) error {
	var upgrade *httpstream.UpgradeFailureError
	var status *apierrors.StatusError
	if err != nil && strings.HasPrefix(err.Error(), "unable to upgrade connection") && errors.As(refusal, &upgrade) && errors.As(upgrade.Cause, &status) {
		return status
	}
	return err
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.reason(err)
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.reason(err)
}

// reason returns why the command ended, if that closed the pipe. Otherwise it returns err.
func (c *conn) reason(err error) error {
	switch {
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe):
	case c.life.Err() != nil:
		return failed(c.life.Err(), "%v", c.life.Err())
	case c.ended() && c.err != nil:
		return c.err
	}
	return err
}

// Close ends the command's input, and with it the command. If the command has not ended after the
// grace, it is cut off.
func (c *conn) Close() (err error) {
	c.close.Do(func() {
		err = c.Conn.Close()
		time.AfterFunc(grace, c.cut)
	})
	return err
}

func (c *conn) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// input closes begun when the library first reads from it: then the API server has accepted the
// exec.
type input struct {
	io.Reader
	once  sync.Once
	begun chan struct{}
}

func (i *input) Read(p []byte) (int, error) {
	i.once.Do(func() { close(i.begun) })
	return i.Reader.Read(p)
}

// head keeps the first maxStderr bytes that are written to it.
type head struct {
	mu   sync.Mutex
	text []byte
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text = append(h.text, p[:min(len(p), maxStderr-len(h.text))]...)
	return len(p), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.text)
}
