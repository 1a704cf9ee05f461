package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestStartsOnItsOwnThread has the child in a namespace that only the thread
// that forked it has entered.
func TestStartsOnItsOwnThread(t *testing.T) {
	main, err := os.Readlink("/proc/self/ns/uts")
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: a namespace needs root")
	}
	out := filepath.Join(t.TempDir(), "ns")
	cmd := exec.Command("/bin/sh", "-c", "readlink /proc/self/ns/uts >"+out)
	p, err := Start(cmd, func() error { return errors.Join(unix.Unshare(unix.CLONE_NEWUTS), cmd.Start()) })
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	child, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(child)) == main {
		t.Error("the child is in our namespace, not in that of its thread")
	}
	// The thread is gone, not back in use; it ends a moment after its goroutine.
	for deadline := time.Now().Add(time.Minute); entered(t, main); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the thread does not end")
		}
	}

	errNo := errors.New("no")
	if _, err := Start(exec.Command("/bin/true"), func() error { return errNo }); !errors.Is(err, errNo) {
		t.Errorf("Start: %v, want the error of start", err)
	}
}

// entered reports whether a thread of this process is in another namespace than the main one.
func entered(t *testing.T, main string) bool {
	links, err := filepath.Glob("/proc/self/task/*/ns/uts")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(links, func(link string) bool {
		ns, err := os.Readlink(link)
		return err == nil && ns != main
	})
}

// TestLife goes through all that can be done with a process.
func TestLife(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	var none *Process
	if none.Alive() {
		t.Error("a process that never was is alive")
	}
	p, err := StartLogged(exec.Command("/bin/sh", "-c", "echo one; exec sleep 1000"), log, nil)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); Tail(log) == ""; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing is in the log")
		}
	}
	if u, err := UsageOf(p.PID()); err != nil || u.RSSBytes == 0 || u.PeakBytes < u.RSSBytes || u.ReadBytes == 0 || !p.Alive() {
		t.Errorf("alive %t, usage %+v, %v", p.Alive(), u, err)
	}
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.End(now, syscall.SIGCONT); !errors.Is(err, context.Canceled) {
		t.Errorf("an end that nobody waited for: %v", err)
	}
	if err := errors.Join(p.End(t.Context(), syscall.SIGTERM), p.End(t.Context(), syscall.SIGTERM)); err != nil || p.Alive() {
		t.Errorf("alive %t, %v", p.Alive(), err)
	}
	if p.Err() == nil || p.State().String() != "signal: terminated" {
		t.Errorf("it ended with %v, %v", p.Err(), p.State())
	}
	if p, err = StartLogged(exec.Command("/bin/echo", "two"), log, nil); err != nil || p.Err() != nil {
		t.Fatal(err, p.Err())
	}
	if got := Tail(log); !strings.HasSuffix(got, "log ends with:\none\ntwo") || Tail(log+"x") != "" {
		t.Errorf("the log: %q", got)
	}
}

func TestLines(t *testing.T) {
	var got []string
	l := &Lines{Line: func(text string) { got = append(got, text) }}
	for _, part := range []string{"a", "b\n\nc\nd", "e"} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	l.Flush()
	l.Flush()
	if !slices.Equal(got, []string{"ab", "", "c", "de"}) {
		t.Errorf("lines: %q", got)
	}
}

// TestTail: the end of a long log is there, and no more.
func TestTail(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if got := Tail(log); got != "" {
		t.Errorf("the end of no log is %q", got)
	}
	for lines, begin := range map[int]string{2: "\n" + log + " ends with:\nline 0\nline 1", 10000: "\n" + log + " ends with:\n"} {
		var text strings.Builder
		for i := range lines {
			fmt.Fprintf(&text, "line %d\n", i)
		}
		if err := os.WriteFile(log, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		got := Tail(log)
		if !strings.HasPrefix(got, begin) || !strings.HasSuffix(got, fmt.Sprintf("line %d", lines-1)) || len(got) > len(begin)+tailBytes {
			t.Errorf("%d lines end with %.80q … (%d bytes)", lines, got, len(got))
		}
	}
}
