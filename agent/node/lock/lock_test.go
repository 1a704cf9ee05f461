package lock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/lock"
)

// holdThis, in the environment, makes the test binary a holder of that lock.
const holdThis = "EBB_TEST_HOLD"

func TestMain(m *testing.M) {
	if path := os.Getenv(holdThis); path != "" {
		hold(path)
	}
	goleak.VerifyTestMain(m)
}

// hold prints that it has the lock, and keeps it until its standard input ends.
func hold(path string) {
	l, err := lock.Acquire(context.Background(), path, 0, lock.Self("v1.2.3"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := l.Release(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// other is another process.
type other struct {
	*exec.Cmd
	stdin  io.Closer
	output string
}

func start(t *testing.T, path string, env ...string) *other {
	t.Helper()
	o := &other{Cmd: exec.Command(os.Args[0])}
	o.Env = append(append(os.Environ(), env...), holdThis+"="+path)
	stdin, err := o.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := o.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Start(); err != nil {
		t.Fatal(err)
	}
	o.stdin = stdin
	t.Cleanup(func() {
		_ = o.Process.Kill()
		_ = o.Wait()
	})
	o.output, err = bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	o.output = strings.TrimSpace(o.output)
	return o
}

// TestTwoProcesses: the second one reports who was first, and has its turn as soon as
// that one has died, even by SIGKILL.
func TestTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "agent.lock")
	first := start(t, path, "POD_NAME=ebb-agent-x7k2p", "POD_NAMESPACE=ebb-system")
	if first.output != "held" {
		t.Fatal(first.output)
	}
	second := start(t, path)
	for _, want := range []string{
		"another ebb-agent runs on this node", "pod ebb-system/ebb-agent-x7k2p", "pid " + strconv.Itoa(first.Process.Pid),
		"version v1.2.3", "since " + time.Now().UTC().Format("2006-01-02T"), path,
	} {
		if !strings.Contains(second.output, want) {
			t.Errorf("%q is not in: %s", want, second.output)
		}
	}
	h, held, err := lock.Look(path)
	if err != nil || !held || h.PID != first.Process.Pid {
		t.Errorf("look: %v, %v, %v", h, held, err)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // killed
	third := start(t, path)
	if third.output != "held" {
		t.Errorf("after a kill: %s", third.output)
	}
	third.stdin.Close()
	if err := third.Wait(); err != nil {
		t.Error(err)
	}
	if _, held, err := lock.Look(path); held || err != nil {
		t.Errorf("after the end: held %v, %v", held, err)
	}
}

// TestWaits: who may wait gets the lock when the other one goes.
func TestWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.lock")
	first := start(t, path)
	got := make(chan error, 1)
	go func() {
		l, err := lock.Acquire(t.Context(), path, time.Minute, lock.Holder{})
		if err == nil {
			err = l.Release()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatal("two have it: ", err)
	case <-time.After(200 * time.Millisecond): // nothing could be waited for: it must not come
	}
	first.stdin.Close()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// TestGivesUp: with the caller's patience.
func TestGivesUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.lock")
	l := acquire(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lock.Acquire(ctx, path, time.Hour, lock.Holder{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	_, err := lock.Acquire(t.Context(), path, 0, lock.Holder{})
	var held *lock.HeldError
	if !errors.As(err, &held) || held.Holder.PID != os.Getpid() {
		t.Error(err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

func acquire(t *testing.T, path string) *lock.Lock {
	t.Helper()
	l, err := lock.Acquire(t.Context(), path, 0, lock.Self(""))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestUnlinked: a lock on a file that nobody else can find any more is none.
func TestUnlinked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ebb")
	path := filepath.Join(dir, "agent.lock")
	l := acquire(t, path)
	got := make(chan *lock.Lock, 1)
	go func() {
		l, err := lock.Acquire(t.Context(), path, time.Minute, lock.Self(""))
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	if err := l.Remove(); err != nil {
		t.Fatal(err)
	}
	second := <-got
	if _, held, err := lock.Look(path); !held || err != nil {
		t.Errorf("held: %v, %v", held, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := second.Remove(); err != nil {
		t.Error("a directory with something else in it: ", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestDirectoryRemovedMeanwhile: another's Remove ends with an rmdir, which may come
// between any two steps of Acquire and of Remove.
func TestDirectoryRemovedMeanwhile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ebb")
	path := filepath.Join(dir, "agent.lock")
	done := make(chan struct{})
	var removed atomic.Int64
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if unix.Rmdir(dir) == nil {
					removed.Add(1)
				}
			}
		})
	}
	for n := 0; (n < 300 || removed.Load() < 100) && !t.Failed(); n++ {
		l, err := lock.Acquire(t.Context(), path, 0, lock.Self(""))
		if err != nil {
			t.Errorf("acquire %d: %v", n, err)
			break
		}
		if err := l.Remove(); err != nil {
			t.Errorf("remove %d: %v", n, err)
		}
	}
	close(done)
	others.Wait()
}

// TestHandedOver: many who take turns at once, each removing file and directory, are
// never two, and the only refusal that any of them gets is to wait.
func TestHandedOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ebb", "agent.lock")
	var holders atomic.Int32
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				l, err := lock.Acquire(t.Context(), path, 10*time.Minute, lock.Self(""))
				if err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d hold it", n)
				}
				holders.Add(-1)
				if err := l.Remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// TestOddPaths: what is not a file of ours is not touched, and the error has the path.
func TestOddPaths(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, dir, filepath.Join(target, "agent.lock")} {
		if _, err := lock.Acquire(t.Context(), path, 0, lock.Self("")); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if b, err := os.ReadFile(target); err != nil || string(b) != "precious" {
		t.Errorf("the link's target: %q, %v", b, err)
	}
	if _, held, err := lock.Look(filepath.Join(dir, "none")); held || err != nil {
		t.Errorf("no file: %v, %v", held, err)
	}
}

// TestHostileNote: the content of the file reaches a terminal and a log.
func TestHostileNote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.lock")
	l := acquire(t, path)
	defer l.Release()
	for _, note := range []string{
		`{"pod":"\u001b[2J\n\"evil\"","namespace":"a","pid":1,"pidNamespace":7,"version":"` + strings.Repeat("x", 3000) + `"}`,
		`{"pid":-1}`, `{"since":"never"}`, "\x00\xff", strings.Repeat("{", 1<<20), ``,
	} {
		if err := os.WriteFile(path, []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := lock.Acquire(t.Context(), path, 0, lock.Self(""))
		if !errors.Is(err, lock.ErrHeld) {
			t.Fatalf("%.40q: %v", note, err)
		}
		text := err.Error()
		if len(text) > 1000 || strings.ContainsAny(text, "\x1b\n\x00") || !strings.Contains(text, "pid "+strconv.Itoa(os.Getpid())) {
			t.Errorf("%.40q: %q", note, text)
		}
	}
}
