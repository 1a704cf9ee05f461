package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/process"
)

// fake is a component that is a shell script.
func fake(t *testing.T, script string, ready func(context.Context) error) *Component {
	t.Helper()
	c := &Component{
		name: "fake", binary: "/bin/sh", args: []string{"-c", script},
		logFile: filepath.Join(t.TempDir(), "fake.log"), log: slog.New(slog.DiscardHandler), ready: ready,
	}
	t.Cleanup(func() {
		if err := c.Kill(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// logs is ready once the log has a text.
func logs(c **Component, text string) func(context.Context) error {
	return func(context.Context) error {
		log, err := os.ReadFile((*c).logFile)
		if err != nil {
			return err
		}
		if !strings.Contains(string(log), text) {
			return fmt.Errorf("log is %q", log)
		}
		return nil
	}
}

func TestComponentThatFails(t *testing.T) {
	c := fake(t, "echo 'no such thing as a free port' >&2; exit 3", func(context.Context) error { return errors.New("refused") })
	err := c.Start(t.Context())
	if err == nil {
		t.Fatal("Start succeeded")
	}
	for _, want := range []string{"no such thing as a free port", "exit status 3", "refused"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
	if c.Running() || c.PID() != 0 {
		t.Errorf("running with pid %d after it ended", c.PID())
	}
}

func TestComponentThatHangs(t *testing.T) {
	c := fake(t, "echo still thinking; exec sleep 1000", func(context.Context) error { return errors.New("not yet") })
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := c.Start(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "still thinking") {
		t.Errorf("Start: %v; want a deadline and the log", err)
	}
}

// TestComponentLife goes through all that can be done with a component.
func TestComponentLife(t *testing.T) {
	var c *Component
	c = fake(t, `trap 'echo "bye $0"; exit 0' TERM; echo "hello $0"; while :; do sleep 0.01; done`, logs(&c, "hello"))
	c.SetArgs("one")
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := c.PID()
	if err := c.Start(t.Context()); err != nil || c.PID() != first {
		t.Errorf("Start again: %v, pid %d; want %d", err, c.PID(), first)
	}
	if err := c.Pause(); err != nil {
		t.Fatal(err)
	}
	if all, err := allThreads(first, true); err != nil || !all || !c.Running() {
		t.Errorf("after Pause: stopped %v, %v, running %v", all, err, c.Running())
	}
	if err := c.Resume(); err != nil {
		t.Fatal(err)
	}
	if u, err := c.Usage(); err != nil || u.RSSBytes == 0 || u.Voluntary == 0 {
		t.Errorf("Usage: %+v, %v", u, err)
	}
	c.SetArgs("two")
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.Holds(t, time.Minute, "a restart with other arguments", func(ctx context.Context) error {
		if c.PID() == first {
			return errors.New("it is the first one")
		}
		return logs(&c, "hello one\nbye one\nhello two")(ctx)
	})
	// Killed while paused, too.
	if err := errors.Join(c.Pause(), c.Kill()); err != nil {
		t.Fatal(err)
	}
	if c.Running() || !errors.Is(c.Pause(), ErrNotRunning) {
		t.Error("runs after Kill")
	}
	if _, err := c.Usage(); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Usage after Kill: %v, want ErrNotRunning", err)
	}
	if err := errors.Join(c.Kill(), c.Stop(t.Context())); err != nil {
		t.Errorf("ending what has ended: %v", err)
	}
}

// TestUsage compares the figures with a process that is known to work.
func TestUsage(t *testing.T) {
	c := fake(t, "while :; do :; done", func(context.Context) error { return nil })
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, err := c.Usage()
	if err != nil {
		t.Fatal(err)
	}
	var after process.Usage
	// Until it has had its time, however busy the machine is.
	await.Holds(t, time.Minute, "it to use the CPU", func(context.Context) error {
		if after, err = c.Usage(); err != nil {
			t.Fatal(err)
		}
		if after.CPU-before.CPU <= 50*time.Millisecond {
			return fmt.Errorf("it has used %v", after.CPU-before.CPU)
		}
		return nil
	})
	if r := after.Since(before); r.CPUPercent <= 0 || r.CPUPercent > 101 {
		t.Errorf("one busy thread used %.1f %% of a core", r.CPUPercent)
	}
	if after.PeakBytes < after.RSSBytes {
		t.Errorf("peak %d below RSS %d", after.PeakBytes, after.RSSBytes)
	}
}

func TestReservation(t *testing.T) {
	r, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", r.port)
	if l, err := net.Listen("tcp", address); err == nil {
		l.Close()
		t.Error("another could listen on a reserved port")
	}
	if fd, err := bindPort(r.port); err == nil {
		unix.Close(fd)
		t.Error("a port could be reserved twice")
	}
	sharing := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		err := c.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return errors.Join(err, set)
	}}
	// Twice, as over a restart; and connections reach it.
	for range 2 {
		l, err := sharing.Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatalf("listen on a reserved port with sharing: %v", err)
		}
		for range 10 {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			server, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
			server.Close()
		}
		l.Close()
	}
	if err := errors.Join(r.release(), r.release()); err != nil {
		t.Error(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Errorf("listen on a released port: %v", err)
	} else {
		l.Close()
	}
}
