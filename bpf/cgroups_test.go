package bpf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// unified is a v2 hierarchy mounted for this test.
func unified(t testing.TB) string {
	t.Helper()
	needRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("cgroup2", dir, "cgroup2", 0, ""); err != nil {
		t.Fatalf("mount cgroup2: %v", err)
	}
	t.Cleanup(func() { unmount(t, dir) })
	return dir
}

var cgroups atomic.Int64

// cgroup makes a cgroup whose last element is name, below one of this test's
// own. It is removed with the test, or before.
func cgroup(t testing.TB, name string) string {
	t.Helper()
	root := unified(t)
	removeDeadCgroups(t, root)
	base := filepath.Join(root, fmt.Sprintf("%s%d-%d", cgroupPrefix, os.Getpid(), cgroups.Add(1)))
	dir := filepath.Join(base, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeCgroups(t, base) })
	return dir
}

const cgroupPrefix = "ebb-bpf-test-"

// removeDeadCgroups removes what killed tests have left.
func removeDeadCgroups(t testing.TB, root string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(root, cgroupPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range left {
		var pid, n int
		_, err := fmt.Sscanf(filepath.Base(dir), cgroupPrefix+"%d-%d", &pid, &n)
		if err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			removeCgroups(t, dir)
		}
	}
}

func removeCgroups(t testing.TB, base string) {
	var dirs []string
	err := filepath.WalkDir(base, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for _, dir := range slices.Backward(dirs) {
		if err := unix.Rmdir(dir); err != nil {
			t.Errorf("remove cgroup %s: %v", dir, err)
		}
	}
}

func cgroupID(t testing.TB, dir string) uint64 {
	t.Helper()
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	var id uint64
	for i, b := range handle.Bytes()[:8] {
		id |= uint64(b) << (8 * i) // little-endian machines only, as the objects are
	}
	return id
}

// ownCgroup is the cgroup of the test in the v2 hierarchy that is mounted at root.
func ownCgroup(t testing.TB, root string) uint64 {
	t.Helper()
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	_, path, _ := strings.Cut("\n"+string(groups), "\n0::")
	path, _, ok := strings.Cut(path, "\n")
	if !ok {
		t.Fatalf("no v2 cgroup in %q", groups)
	}
	return cgroupID(t, filepath.Join(root, path))
}

// actor is a shell in a cgroup of its own, on a filesystem.
type actor struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	cg  string
	id  uint64

	ended  bool
	script string // the one that runs
}

func newActor(t testing.TB, cg, dir string) *actor {
	t.Helper()
	fd, err := os.Open(cg)
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	cmd := exec.Command("/bin/sh")
	cmd.Dir = dir
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "SELF="+self) // see envDeed
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(fd.Fd()), Pdeathsig: unix.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a := &actor{t: t, cmd: cmd, in: in, out: bufio.NewReader(out), cg: cg, id: cgroupID(t, cg)}
	t.Cleanup(func() { a.end() })
	return a
}

// do runs a script and returns when it has ended.
func (a *actor) do(script string) {
	a.t.Helper()
	a.send(script)
	a.await()
}

// send begins a script, and await returns when it has ended.
func (a *actor) send(script string) {
	a.t.Helper()
	a.script = script
	if _, err := fmt.Fprintf(a.in, "%s\necho \"done $?\"\n", script); err != nil {
		a.t.Fatal(err)
	}
}

func (a *actor) await() {
	a.t.Helper()
	line, err := a.out.ReadString('\n')
	if err != nil || line != "done 0\n" {
		a.t.Fatalf("%s: %q, %v", a.script, line, err)
	}
}

// root is where the hierarchy of the actor's cgroup is mounted.
func (a *actor) root(t testing.TB) string {
	t.Helper()
	root, _, ok := strings.Cut(a.cg, "/"+cgroupPrefix)
	if !ok {
		t.Fatalf("no root of %s", a.cg)
	}
	return root
}

// deleted counts the files that it has open and that have no name.
func (a *actor) deleted(t testing.TB) (n int64) {
	t.Helper()
	if a.ended {
		return 0
	}
	dir := fmt.Sprintf("/proc/%d/fd", a.cmd.Process.Pid)
	open, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		if path, _ := os.Readlink(filepath.Join(dir, fd.Name())); strings.HasPrefix(path, a.cmd.Dir) && strings.HasSuffix(path, " (deleted)") {
			n++
		}
	}
	return n
}

// end ends the shell, which closes its files.
func (a *actor) end() {
	a.ended = true
	a.in.Close()
	a.cmd.Wait()
}
