// Package stdio joins a process's standard input and output to a unix socket, so that
// whoever may run a command beside the agent can speak to its admin socket: "ebb-agent
// dial-stdio" is run by kubectl exec, and by agent/desk in the same way.
//
// # Invariants
//
//   - The end of the input is the end of what the agent is sent, not of its answer.
//   - The end of the answer ends the command.
//   - A desk that goes away leaves no process behind: after the end of the input, the
//     answer has [Linger] to end.
//
// It links next to nothing: it runs in the agent's container, on the agent's memory.
package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// DefaultSocket is where an agent's admin socket is.
const DefaultSocket = "/run/ebb/agent.sock"

// Linger is how long an answer may take after the end of the input.
const Linger = time.Minute

// Dial connects to a unix socket and carries bytes both ways, until the socket's side
// ends or ctx does.
func Dial(ctx context.Context, path string, stdin io.Reader, stdout io.Writer) error {
	return dial(ctx, path, stdin, stdout, Linger)
}

func dial(ctx context.Context, path string, stdin io.Reader, stdout io.Writer, linger time.Duration) error {
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return Explain(path, err)
	}
	conn := c.(*net.UnixConn)
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	go send(conn, stdin, linger)
	_, err = io.Copy(stdout, conn)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%s: no answer within %s after the end of the input", path, linger)
	case err != nil:
		return fmt.Errorf("carry the answer from %s: %w", path, err)
	}
	return nil
}

// send carries the input to its end. An error is not the end: the agent may have answered
// before it had read everything.
func send(conn *net.UnixConn, stdin io.Reader, linger time.Duration) {
	_, _ = io.Copy(conn, stdin)
	_ = conn.CloseWrite()
	_ = conn.SetReadDeadline(time.Now().Add(linger))
}

// Explain says why a socket cannot be connected to, and the way out.
func Explain(path string, err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return fmt.Errorf("connect to ebb-agent: %w", err)
	}
	hint := ""
	switch errno {
	case syscall.ENOENT:
		hint = ": does ebb-agent run here, and is this the path in its configuration?"
	case syscall.ECONNREFUSED:
		hint = ": ebb-agent has ended, or is only starting"
	case syscall.EACCES, syscall.EPERM:
		hint = ": the socket is for the agent's own user, who is root"
	}
	return fmt.Errorf("connect to ebb-agent at %s: %w%s", path, errno, hint)
}
