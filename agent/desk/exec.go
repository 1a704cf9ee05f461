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

// maxStderr bounds what is kept of what a command says before it fails.
const maxStderr = 4 << 10

// grace is how long a command has to end by itself when its input has ended. Commands that
// are cut off end as well, but later, and the library's goroutines with them.
const grace = time.Second

// conn is a connection to an agent, over the standard streams of a command in its pod.
type conn struct {
	net.Conn // our end of a pipe
	life     context.Context
	close    sync.Once
	cut      context.CancelFunc
	done     chan struct{} // the command has ended, or could not begin
	err      error         // why, from done on; nil: it ended well
}

// exec begins the command in an agent's pod. It returns once the API server has let it
// begin; whether the kubelet did is known when something is read. The connection lives as
// long as life at most.
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
	input, said := &input{Reader: theirs, begun: make(chan struct{})}, &head{}
	go func() {
		err := executor.StreamWithContext(stream, remotecommand.StreamOptions{Stdin: input, Stdout: theirs, Stderr: said})
		c.err = a.explain(life, clearer(err, refusal), said.String())
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

// streamContext outlives life by the grace.
func streamContext(life context.Context) (context.Context, context.CancelFunc) {
	// The library would write what goes wrong to this process's standard error as well.
	stream := klog.NewContext(context.WithoutCancel(life), logr.Discard())
	if end, ok := life.Deadline(); ok {
		return context.WithDeadline(stream, end.Add(grace))
	}
	return context.WithCancel(stream)
}

// executor is made anew for each exec: it is not for concurrent use. It notes why it fell
// back to SPDY. The query has the container and the command, whose output is carried.
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

// clearer is the API server's own word, if that is why both protocols were refused: the
// library keeps it for WebSockets alone.
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

// reason is why the command ended, if that is why the pipe did.
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

// Close ends the command's input, which ends the command; if it does not, it is cut off.
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

// input tells when the library begins to read: then the command was let begin.
type input struct {
	io.Reader
	once  sync.Once
	begun chan struct{}
}

func (i *input) Read(p []byte) (int, error) {
	i.once.Do(func() { close(i.begun) })
	return i.Reader.Read(p)
}

// head keeps the beginning of what is written.
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
