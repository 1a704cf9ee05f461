package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/moby/sys/mountinfo"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/cgroup"
	"github.com/ebb-agent/ebb/tools/loopfs"
	"github.com/ebb-agent/ebb/tools/owned"
)

// The owner of a node is played by this test binary, run again with these in
// its environment, so that it can be killed without notice.
const (
	ownerBase   = "NODE_TEST_OWNER_BASE"
	ownerFlavor = "NODE_TEST_OWNER_FLAVOR"
	ownedName   = "owned"
)

func TestMain(m *testing.M) {
	if base := os.Getenv(ownerBase); base != "" {
		playOwner(base, Flavor(os.Getenv(ownerFlavor)))
	}
	goleak.VerifyTestMain(m)
}

// playOwner starts a node with a container and a pod on it, prints "ready", and holds
// it until it is killed.
func playOwner(base string, flavor Flavor) {
	ctx := context.Background()
	err := func() error {
		n, err := Start(ctx, Config{Name: ownedName, Base: base, Containerd: flavor, SizeBytes: 256 * mib, Log: os.Stderr})
		if err != nil {
			return err
		}
		if _, err := n.Import(ctx, CRINamespace, Image{Name: "node.test/app:1"}); err != nil {
			return err
		}
		if _, err := n.Run(ctx, RunSpec{ID: "plain", Image: "node.test/app:1"}); err != nil {
			return err
		}
		_, err = n.RunPod(ctx, PodSpec{Name: "pod", Containers: []PodContainer{{Name: "c", Image: "node.test/app:1"}}})
		return err
	}()
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Stdout.WriteString("ready\n")
	select {}
}

// startOwner returns the running owner and a reader of its output. Whatever
// happens to the test, nothing of the node stays.
func startOwner(t *testing.T, base string, flavor Flavor) (*exec.Cmd, io.Reader) {
	t.Helper()
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerBase+"="+base, ownerFlavor+"="+string(flavor))
	owner.Stderr = t.Output()
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = owner.Process.Kill() // no matter if it was killed before
		_ = owner.Wait()
		if _, err := Clean(context.Background(), base, slog.New(slog.DiscardHandler)); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return owner, out
}

// kill ends the owner, and waits until it owns nothing: a child that it was
// just forking holds its files until it has become another program.
func kill(t *testing.T, owner *exec.Cmd, base string) {
	t.Helper()
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait() // returns "signal: killed"
	awaitTrue(t, "an end of the ownership", func() bool {
		f, err := os.Open(filepath.Join(base, ownedName, owned.LockName))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
	})
}

// awaitTrue polls until a condition holds of which there are no events.
func awaitTrue(t *testing.T, what string, holds func() bool) {
	t.Helper()
	await.Holds(t, time.Minute, what, func(context.Context) error {
		if !holds() {
			return errors.New("not yet")
		}
		return nil
	})
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root (mounts, containers)")
	}
}

func testLog(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// traces lists what exists of a node anywhere on the machine.
func traces(t *testing.T, l layout, sockets []string) []string {
	t.Helper()
	found, err := mountsBelow(string(l))
	if err != nil {
		t.Fatal(err)
	}
	loops, err := loopfs.Attached(string(l))
	if err != nil {
		t.Fatal(err)
	}
	found = append(found, loops...)
	procs, err := processesOf(l)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range procs {
		found = append(found, fmt.Sprintf("process %d", pid))
	}
	hierarchies, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hierarchies {
		sockets = append(sockets, filepath.Join(h.Mountpoint, l.cgroup()))
	}
	for _, path := range append(sockets, string(l)) {
		if _, err := os.Lstat(path); err == nil {
			found = append(found, path)
		}
	}
	return found
}

// shimSockets are the paths that the shims of a running node listen on, as
// their bundles have it: in "address" (containerd 1.6) or bootstrap.json.
func shimSockets(t *testing.T, l layout) []string {
	t.Helper()
	bundles, err := filepath.Glob(filepath.Join(l.state(), "io.containerd.runtime.v2.task", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, bundle := range bundles {
		data, err := os.ReadFile(filepath.Join(bundle, "address"))
		if err != nil {
			data, err = os.ReadFile(filepath.Join(bundle, "bootstrap.json"))
		}
		path := regexp.MustCompile(`/run/containerd/s/[0-9a-f]{64}`).FindString(string(data))
		if err != nil || !exists(path) {
			t.Errorf("no shim socket for bundle %s: %q, %v", bundle, path, err)
		}
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

func TestCleanAfterOwnerIsKilled(t *testing.T) {
	needRoot(t)
	for _, flavor := range []Flavor{Debian, V2} {
		t.Run(string(flavor), func(t *testing.T) {
			base := t.TempDir()
			owner, out := startOwner(t, base, flavor)
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatalf("owner printed %q: %v", line, err)
			}
			l := layout(filepath.Join(base, ownedName))
			sockets := shimSockets(t, l)
			if len(sockets) != 2 { // the container's and the pod's
				t.Fatalf("%d shim sockets, want 2: %v", len(sockets), sockets)
			}

			// As long as the owner lives, nobody else may touch the node.
			if gone, err := Clean(t.Context(), base, testLog(t)); err != nil || len(gone) != 0 {
				t.Fatalf("Clean with a living owner: %v, %v; want nothing", gone, err)
			}
			kill(t, owner, base)
			// containerd, two shims, the container, the sandbox and the pod's container.
			procs, err := processesOf(l)
			if err != nil {
				t.Fatal(err)
			}
			if len(procs) < 6 {
				t.Fatalf("%d processes outlive the owner, want 6: the test has nothing to clean", len(procs))
			}

			gone, err := Clean(t.Context(), base, testLog(t))
			if err != nil || !slices.Equal(gone, []string{ownedName}) {
				t.Fatalf("Clean: %v, %v; want [%s]", gone, err, ownedName)
			}
			if left := traces(t, l, sockets); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if gone, err := Clean(t.Context(), base, testLog(t)); err != nil || len(gone) != 0 {
				t.Errorf("Clean again: %v, %v; want nothing", gone, err)
			}
		})
	}
}

// TestCleanAtEveryStep kills the owner as soon as each of the things that
// Start makes, in that order, is there.
func TestCleanAtEveryStep(t *testing.T) {
	needRoot(t)
	for _, step := range []struct {
		name  string
		there func(layout) bool
	}{
		{"lock", func(l layout) bool { return exists(l.path(owned.LockName)) }},
		{"disk", func(l layout) bool { return exists(l.disk()) }},
		{"loop", func(l layout) bool { loops, err := loopfs.Attached(string(l)); return err == nil && len(loops) > 0 }},
		{"mount", func(l layout) bool { points, err := mountsBelow(string(l)); return err == nil && len(points) > 0 }},
		{"config", func(l layout) bool { return exists(l.config()) }},
		{"containerd", func(l layout) bool { return exists(l.daemonLog()) }},
		{"socket", func(l layout) bool { return exists(l.socket()) }},
		{"task", func(l layout) bool { return exists(filepath.Join(l.runc(), CRINamespace)) }},
	} {
		t.Run(step.name, func(t *testing.T) {
			base := t.TempDir()
			l := layout(filepath.Join(base, ownedName))
			owner, _ := startOwner(t, base, Debian)
			awaitTrue(t, step.name, func() bool { return step.there(l) })
			kill(t, owner, base)
			if _, err := Clean(t.Context(), base, testLog(t)); err != nil {
				t.Fatal(err)
			}
			if left := traces(t, l, nil); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestStartRemovesWhatADeadOwnerLeft(t *testing.T) {
	needRoot(t)
	base := t.TempDir()
	owner, out := startOwner(t, base, Debian)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("owner printed %q: %v", line, err)
	}
	config := Config{Name: ownedName, Base: base, SizeBytes: 128 * mib, Log: t.Output()}
	if n, err := Start(t.Context(), config); !errors.Is(err, owned.ErrInUse) {
		if err == nil {
			n.Close()
		}
		t.Fatalf("Start beside a living owner: %v, want ErrInUse", err)
	}
	kill(t, owner, base)
	n, err := Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := namespaces.WithNamespace(t.Context(), CRINamespace)
	if list, err := n.Client().Containers(ctx); err != nil || len(list) > 0 {
		t.Errorf("containers of the earlier node on the new one: %v, %v", list, err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if left := traces(t, layout(filepath.Join(base, ownedName)), nil); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestReopen: a node is taken up again with what its disk has, once nothing of it is
// mounted any more.
func TestReopen(t *testing.T) {
	needRoot(t)
	c := Config{Name: "reopened", Base: t.TempDir(), SizeBytes: 256 * mib, Log: t.Output()}
	n, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := n.Import(t.Context(), CRINamespace, Image{Name: "node.test/app:1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Run(t.Context(), RunSpec{ID: "c", Image: "node.test/app:1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := Reopen(t.Context(), c); err == nil || !strings.Contains(err.Error(), "still mounted") {
		t.Errorf("beside its owner: %v", err)
	}
	at := n.at
	if err := errors.Join(n.conn.Close(), killAll(t.Context(), at), removeShimSockets(at), cgroup.Remove(t.Context(), at.cgroup()),
		unmountBelow(t.Context(), string(at)), loopfs.AwaitDetached(t.Context(), string(at)), n.lock.Close()); err != nil {
		t.Fatal(err)
	}
	again, err := Reopen(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	n = again
	if err := n.Container(CRINamespace, "c").Start(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := Reopen(t.Context(), Config{Name: "nobody", Base: c.Base}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("one that never was: %v", err)
	}
}

// TestStartFailsCleanly starts a node whose containerd logs why it cannot run.
func TestStartFailsCleanly(t *testing.T) {
	needRoot(t)
	bin := t.TempDir()
	script := "#!/bin/sh\necho 'no such thing as a free disk' >&2\nexit 3\n"
	if err := os.WriteFile(filepath.Join(bin, "containerd"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	base := t.TempDir()
	n, err := Start(t.Context(), Config{Name: "broken", Base: base, Log: t.Output()})
	if err == nil {
		n.Close()
		t.Fatal("Start succeeded without a containerd")
	}
	for _, want := range []string{"no such thing as a free disk", "exit status 3"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
	if left := traces(t, layout(filepath.Join(base, "broken")), nil); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestAbandonDiskSparesOthers asks for it where the mount has not
// happened: the directory is on the machine's own filesystem then.
func TestAbandonDiskSparesOthers(t *testing.T) {
	needRoot(t)
	l := layout(t.TempDir())
	if err := abandonDisk(l); err != nil {
		t.Errorf("without a mount point: %v", err)
	}
	if err := os.Mkdir(l.mount(), 0o700); err != nil {
		t.Fatal(err)
	}
	// Another node's filesystem: its loop device has another file behind it.
	other := layout(t.TempDir())
	t.Cleanup(func() {
		if err := errors.Join(
			unmountBelow(context.Background(), string(l)),
			unmountBelow(context.Background(), string(other)),
			loopfs.AwaitDetached(context.Background(), string(other)),
		); err != nil {
			t.Error(err)
		}
	})
	if err := makeDisk(t.Context(), other, "ext4", 64*mib, false); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(other.mount(), l.mount(), "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := abandonDisk(l); err != nil {
		t.Errorf("with another's filesystem: %v", err)
	}
	if err := os.WriteFile(filepath.Join(l.mount(), "file"), nil, 0o600); err != nil {
		t.Errorf("another's filesystem was shut down: %v", err)
	}
	// Asked for it where it is its own, it is.
	for range 2 {
		if err := abandonDisk(other); err != nil {
			t.Errorf("with its own filesystem: %v", err)
		}
	}
	if err := os.WriteFile(filepath.Join(other.mount(), "file"), []byte("x"), 0o600); !errors.Is(err, unix.EIO) {
		t.Errorf("write to an abandoned filesystem: %v, want EIO", err)
	}
}

func TestCleanLeavesStrangersAlone(t *testing.T) {
	base := t.TempDir()
	stranger := filepath.Join(base, "photos", "cat.jpg")
	if err := os.MkdirAll(filepath.Dir(stranger), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{stranger, filepath.Join(base, "notes")} {
		if err := os.WriteFile(file, []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if gone, err := Clean(t.Context(), base, testLog(t)); err != nil || len(gone) != 0 {
		t.Errorf("Clean: %v, %v; want nothing", gone, err)
	}
	if !exists(stranger) || !exists(filepath.Join(base, "notes")) {
		t.Error("Clean deleted files that are not a node's")
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
