// Package stdio connects a process's standard input and output to a unix socket. "ebb-agent
// dial-stdio" uses it, so that a user who may run a command beside the agent reaches the agent's
// admin socket: with kubectl exec, or with agent/desk, which does the same.
//
// # Invariants
//
//   - The end of the input ends what is sent to the agent, not the agent's answer.
//   - The end of the answer ends the command.
//   - A desk that disconnects leaves no process behind: after the end of the input, the answer has
//     [Linger] to end.
//
// The package imports very little, because it runs in the agent's container and uses the agent's
// memory.
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

// Dial connects to a unix socket and copies bytes both ways. It returns when the socket's side
// ends, when ctx ends, or when the answer takes longer than [Linger] after the end of stdin.
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

// send copies the input until it ends, and then limits the time of the answer. It ignores errors:
// the agent may have answered before it has read everything.
func send(conn *net.UnixConn, stdin io.Reader, linger time.Duration) {
	_, _ = io.Copy(conn, stdin)
	_ = conn.CloseWrite()
	_ = conn.SetReadDeadline(time.Now().Add(linger))
}

// Explain returns an error that explains why the connection to a socket failed, with a hint how to fix
// it.
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
