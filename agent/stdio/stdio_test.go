package stdio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// agent listens on a socket and has serve speak to the first who comes.
func agent(t *testing.T, serve func(*net.UnixConn)) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := listener.Accept(); err == nil {
			defer c.Close()
			serve(c.(*net.UnixConn))
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return path
}

// TestHalfClose: the agent sees the end of the input, and its answer to all of it still comes.
func TestHalfClose(t *testing.T) {
	path := agent(t, func(c *net.UnixConn) {
		got, err := io.ReadAll(c) // ends with the input
		if err != nil {
			t.Error(err)
		}
		_, _ = c.Write(bytes.ToUpper(got))
	})
	sent := strings.Repeat("a", 1<<20)
	var out bytes.Buffer
	if err := Dial(t.Context(), path, strings.NewReader(sent), &out); err != nil || out.String() != strings.ToUpper(sent) {
		t.Errorf("%v, %d bytes", err, out.Len())
	}
}

// TestAnswerEnds: it ends with the answer, whatever the input does, and loses none of it.
func TestAnswerEnds(t *testing.T) {
	for name, end := range map[string]func(*net.UnixConn) error{"close": (*net.UnixConn).Close, "half": (*net.UnixConn).CloseWrite} {
		t.Run(name, func(t *testing.T) {
			path := agent(t, func(c *net.UnixConn) {
				_, _ = c.Write([]byte("early"))
				_ = end(c)
				_, _ = io.Copy(io.Discard, c)
			})
			in, input := io.Pipe() // sends nothing, and stays open
			defer input.Close()
			var out bytes.Buffer
			if err := Dial(t.Context(), path, in, &out); err != nil || out.String() != "early" {
				t.Errorf("%v, %q", err, out.String())
			}
		})
	}
}

// TestOutputBreaks: when nobody reads the answer any more, it ends.
func TestOutputBreaks(t *testing.T) {
	path := agent(t, func(c *net.UnixConn) { _, _ = io.Copy(c, zeros{}) })
	read, write := io.Pipe()
	_ = read.Close()
	in, input := io.Pipe()
	defer input.Close()
	if err := Dial(t.Context(), path, in, write); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestLeavesNothing: an agent that never answers does not keep the command, once its input
// has ended or its context is canceled.
func TestLeavesNothing(t *testing.T) {
	given := make(chan struct{})
	hangs := agent(t, func(*net.UnixConn) { <-given })
	err := dial(t.Context(), hangs, strings.NewReader(""), io.Discard, time.Millisecond)
	close(given)
	if err == nil || !strings.Contains(err.Error(), "no answer within 1ms after the end of the input") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	in, input := io.Pipe()
	defer input.Close()
	path := agent(t, func(c *net.UnixConn) { cancel(); _, _ = io.Copy(io.Discard, c) })
	if err := Dial(ctx, path, in, io.Discard); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestUnreachable(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	_ = listener.Close()
	for path, want := range map[string]string{
		dir + "/none":                        "no such file or directory: does ebb-agent run here",
		stale:                                "connection refused: ebb-agent has ended",
		dir + "/" + strings.Repeat("x", 200): "connect to ebb-agent",
	} {
		err := Dial(t.Context(), path, strings.NewReader(""), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	denied := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EACCES)} // root is never denied
	if err := Explain("/s", denied); err.Error() != "connect to ebb-agent at /s: permission denied: the socket is for the agent's own user, who is root" {
		t.Error(err)
	}
}
