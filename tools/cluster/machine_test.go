package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ebb-agent/ebb/tools/cgroup"
	"github.com/ebb-agent/ebb/tools/loopfs"
)

func TestMain(m *testing.M) {
	Init()
	if os.Getenv("EBB_CLUSTER_TEST_BASE") != "" {
		own()
	}
	goleak.VerifyTestMain(m)
}

// own makes a machine, prints "up", and waits to be killed.
func own() {
	c := Config{Name: "killed", Base: os.Getenv("EBB_CLUSTER_TEST_BASE"), DiskBytes: 256 << 20, Stdout: os.Stdout, Stderr: os.Stderr}
	_, err := Run(context.Background(), c, "sh", "-c", "sleep 1000 & mkdir -p $(grep -o '^cgroup2* [^ ]*' /proc/mounts | cut -d' ' -f2 | head -n 1)$EBB_CLUSTER_CGROUP/below; echo up; wait")
	fmt.Println(err)
	os.Exit(1)
}

func start(t *testing.T, c Config, script string) (int, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: a throwaway machine needs root (namespaces, mounts)")
	}
	var out bytes.Buffer
	c.Base, c.DiskBytes = filepath.Join(t.TempDir(), "base"), 256<<20
	c.Stdout, c.Stderr = &out, &out
	status, err := Run(t.Context(), c, "sh", "-c", script)
	if err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	if left := remains(t, filepath.Join(c.Base, "ebb")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	return status, out.String()
}

// remains is what is there of a machine.
func remains(t *testing.T, dir string) []string {
	t.Helper()
	var left []string
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		left = append(left, dir)
	}
	tops, err := cgroup.Hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, top := range tops {
		if _, err := os.Stat(filepath.Join(top, Cgroup(dir))); err == nil {
			left = append(left, filepath.Join(top, Cgroup(dir)))
		}
	}
	loops, err := loopfs.Attached(dir)
	if err != nil {
		t.Fatal(err)
	}
	return append(left, loops...)
}

func TestNothingGetsOut(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	stray := filepath.Join(out, "..", "stray")
	status, output := start(t, Config{Out: out}, `
		touch "`+stray+`" # in a /tmp of its own
		for f in /usr/bin/x /opt/x ./x; do touch $f 2>/dev/null && echo could write $f; done
		for d in /var/lib /etc /run /tmp "`+out+`"; do touch $d/x || echo cannot write $d; done
		echo 0 >/proc/sys/vm/overcommit_memory || echo setting not covered
		[ "$(stat -f -c %T /var)" = ext2/ext3 ] || echo /var is not the disk
		[ -z "$(ls /sys/fs/bpf | grep -v debug)" ] || echo pins of others are seen
		[ "$(hostname)" = ebb ] || echo wrong name
		ip -o -4 address show node0 | grep -q `+NodeIP+` || echo no address
		[ "$(ls -d /proc/[0-9]* | wc -l)" -lt 10 ] || echo others processes are seen
		exit 7`)
	if status != 7 || output != "" {
		t.Errorf("status %d, and it prints:\n%s", status, output)
	}
	if _, err := os.Stat(filepath.Join(out, "x")); err != nil {
		t.Errorf("what was written to Out is not there: %v", err)
	}
	if _, err := os.Stat(stray); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was written to the machine's /tmp came out: %v", err)
	}
	if data, err := os.ReadFile("/proc/sys/vm/overcommit_memory"); err != nil || !slices.Contains([]string{"0\n", "1\n", "2\n"}, string(data)) {
		t.Errorf("vm.overcommit_memory is %q, %v", data, err)
	}
}

// Orphans become the first process's children, which is not to take one of them for
// the command; and they end with it.
func TestOrphans(t *testing.T) {
	t.Parallel()
	status, output := start(t, Config{}, `
		(setsid sh -c 'exit 3' &) ; (setsid sleep 1000 &)
		i=0; while [ "$(ps -o stat= --ppid 1 | grep -c Z)" != 0 ]; do i=$((i+1)); [ $i -lt 500 ] || { echo a zombie stays; exit 1; }; done
		exit 5`)
	if status != 5 || output != "" {
		t.Errorf("status %d, and it prints:\n%s", status, output)
	}
}

func TestSetupFails(t *testing.T) {
	t.Parallel()
	status, output := start(t, Config{See: []string{"/nowhere"}}, "true")
	if status != SetupFailed || !strings.Contains(output, "/nowhere") {
		t.Errorf("status %d, and it prints %q; want %d, and the directory's name", status, output, SetupFailed)
	}
}

// A killed owner takes the machine with it, and Clean the rest; a living owner's is
// left alone.
func TestKilled(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: a throwaway machine needs root (namespaces, mounts)")
	}
	base := filepath.Join(t.TempDir(), "base")
	dir := filepath.Join(base, "killed")
	owner := exec.Command("/proc/self/exe")
	owner.Env = append(os.Environ(), "EBB_CLUSTER_TEST_BASE="+base)
	stdout, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	output := make([]byte, 3)
	if _, err := io.ReadFull(stdout, output); err != nil || string(output) != "up\n" {
		t.Fatalf("the owner prints %q, %v", output, err)
	}
	if gone, err := Clean(base, slog.New(slog.DiscardHandler)); err != nil || len(gone) > 0 {
		t.Errorf("Clean of a living owner's: %q, %v", gone, err)
	}
	if err := owner.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait() // returns that it was killed
	// The lock is free when the machine's last process has ended.
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		gone, err := Clean(base, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(gone, []string{"killed"}) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the machine does not end")
		}
	}
	if left := remains(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	_, err := Config{Name: "No Name", Base: "a/b", Out: "/x/../y", DiskBytes: 1}.complete()
	for _, want := range []string{`name "No Name"`, `base "a/b"`, `directory "/x/../y"`, "disk of 1 bytes"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}
