package bpf

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: loading programs and mounting needs root")
	}
}

// load loads probes below a bpffs of this test's own.
func load(t testing.TB, o Options) *Probes {
	t.Helper()
	needRoot(t)
	if o.PinDir == "" {
		o.PinDir = pinDir(t)
	}
	p, err := Load(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	for _, s := range p.Status() {
		if !s.Working() || s.Reason != "" && s.Reason != limitBtrfs {
			t.Fatalf("%s at %s: %s", s.Name, s.AttachPoint, s.Reason)
		}
	}
	return p
}

// pinDir is where Load will mount a bpffs; it goes with the test.
func pinDir(t testing.TB) string {
	t.Helper()
	needRoot(t)
	dir := filepath.Join(t.TempDir(), "pins")
	t.Cleanup(func() {
		if err := Unload(dir); err != nil {
			t.Error(err)
		}
		for unix.Unmount(dir, unix.MNT_DETACH) == nil {
		}
	})
	return dir
}

func reload(t testing.TB, p *Probes, o Options) *Probes {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return load(t, o)
}

// rootfs is an overlay mount as a container has it.
type rootfs struct {
	dir string
	key Key // of the top lower layer
	top string
}

// overlay mounts layers, topmost first; without any, two are made. The lowest
// holds busybox.
func overlay(t testing.TB, layers ...string) rootfs {
	t.Helper()
	needRoot(t)
	base := t.TempDir()
	if len(layers) == 0 {
		layers = []string{filepath.Join(base, "top"), busyboxLayer(t)}
	}
	dirs := map[string]string{}
	for _, name := range []string{"upper", "work", "root"} {
		dirs[name] = filepath.Join(base, name)
		mkdir(t, dirs[name])
	}
	mkdir(t, layers[0])
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s",
		strings.Join(layers, ":"), dirs["upper"], dirs["work"])
	if err := unix.Mount("overlay", dirs["root"], "overlay", 0, options); err != nil {
		t.Fatalf("mount overlay: %v", err)
	}
	t.Cleanup(func() { unmount(t, dirs["root"]) })
	return rootfs{dir: dirs["root"], key: keyOfPath(t, layers[0]), top: layers[0]}
}

// busyboxLayer is a directory with a shell.
func busyboxLayer(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "busybox")
	mkdir(t, filepath.Join(dir, "bin"))
	mkdir(t, filepath.Join(dir, "mnt"))
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatalf("%v (apt-get install busybox-static)", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", "busybox"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// command is a process in the container.
func (r rootfs) command(args ...string) *exec.Cmd {
	cmd := exec.Command("/bin/busybox", args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: r.dir, Pdeathsig: unix.SIGKILL}
	return cmd
}

func (r rootfs) run(t testing.TB, args ...string) string {
	t.Helper()
	out, err := r.command(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("busybox %v: %v: %s", args, err, out)
	}
	return string(out)
}

// hold starts a process that lives until the returned function is called, and
// returns once its exec is over.
func (r rootfs) hold(t testing.TB) (end func()) {
	t.Helper()
	cmd := r.command("sh", "-c", "echo up; read x")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("wait for process: %q, %v", line, err)
	}
	return func() {
		io.WriteString(in, "\n")
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

func keyOfPath(t testing.TB, path string) Key {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return Key{Dev: kernelDev(st.Dev), Ino: st.Ino}
}

// kernelDev is s_dev, on filesystems where stat reports it.
func kernelDev(dev uint64) uint64 { return uint64(unix.Major(dev))<<20 | uint64(unix.Minor(dev)) }

func mkdir(t testing.TB, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

func unmount(t testing.TB, dir string) {
	if err := unix.Unmount(dir, 0); err != nil {
		t.Errorf("unmount %s: %v", dir, err)
		unix.Unmount(dir, unix.MNT_DETACH)
	}
}

func now(t testing.TB) uint64 {
	t.Helper()
	ns, err := BootTime()
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

func track(t testing.TB, p *Probes, keys ...Key) {
	t.Helper()
	for _, k := range keys {
		if err := p.Track(k); err != nil {
			t.Fatal(err)
		}
	}
}

// lastUse returns 0 for never.
func lastUse(t testing.TB, p *Probes, k Key) uint64 {
	t.Helper()
	last, ok, err := p.LastUse(k)
	if err != nil {
		t.Fatal(err)
	}
	if ok != (last != 0) {
		t.Fatalf("LastUse(%v) = %d, %v", k, last, ok)
	}
	return last
}

func wantUsedSince(t testing.TB, p *Probes, k Key, since uint64) {
	t.Helper()
	if last := lastUse(t, p, k); last < since || last > now(t) {
		t.Fatalf("last use of %v is %d, want between %d and now", k, last, since)
	}
}

func wantUnused(t testing.TB, p *Probes, k Key) {
	t.Helper()
	if last := lastUse(t, p, k); last != 0 {
		t.Fatalf("last use of %v is %d, want none", k, last)
	}
}

func counters(t testing.TB, p *Probes) Counters {
	t.Helper()
	c, err := p.Counters()
	if err != nil {
		t.Fatal(err)
	}
	return c
}
