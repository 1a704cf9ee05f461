package initramfs

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, a *Archive) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := a.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// busybox is another reader of the format, and what it unpacks is what a kernel
// would.
func unpack(t *testing.T, archive []byte) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: unpacking a device needs root")
	}
	dir := t.TempDir()
	cmd := exec.Command("/bin/busybox", "cpio", "-i")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(archive)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cpio: %v: %s (apt-get install busybox-static)", err, out)
	}
	return dir
}

func TestUnpackedByAnotherReader(t *testing.T) {
	source := filepath.Join(t.TempDir(), "source")
	big := bytes.Repeat([]byte("0123456789"), 100_001) // not a multiple of 4
	if err := os.WriteFile(source, big, 0o600); err != nil {
		t.Fatal(err)
	}
	var a Archive
	a.AddFile("/init", 0o755, []byte("hello"))
	a.AddFile("/etc/empty", 0o640, nil)
	a.AddCopy("/deep/er/big", 0o700, source)
	a.AddLink("/bin", "usr/bin")
	a.AddDir("/usr/bin")
	a.AddCharDevice("/dev/console", 0o600, 5, 1)

	dir := unpack(t, write(t, &a))
	for name, want := range map[string]string{"init": "hello", "etc/empty": "", "deep/er/big": string(big)} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(want))
		}
	}
	for name, want := range map[string]string{
		"init": "-rwxr-xr-x", "etc/empty": "-rw-r-----", "deep/er/big": "-rwx------",
		"deep/er": "drwxr-xr-x", "usr/bin": "drwxr-xr-x", "bin": "Lrwxrwxrwx", "dev/console": "Dcrw-------",
	} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || info.Mode().String() != want {
			t.Errorf("%s: %v, %v; want %s", name, info.Mode(), err, want)
		}
	}
	if target, err := os.Readlink(filepath.Join(dir, "bin")); target != "usr/bin" || err != nil {
		t.Errorf("bin leads to %q, %v", target, err)
	}
}

func TestSameContentsSameBytes(t *testing.T) {
	var a, b Archive
	a.AddFile("/x", 0o644, []byte("1"))
	a.AddFile("/d/y", 0o644, []byte("2"))
	b.AddFile("/d/y", 0o644, []byte("2"))
	b.AddFile("/x", 0o644, []byte("1"))
	if !bytes.Equal(write(t, &a), write(t, &b)) {
		t.Error("the order of adding shows")
	}
}

func TestWriteReportsErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		add  func(*Archive)
		want string
	}{
		"missing source": {func(a *Archive) { a.AddCopy("/x", 0o644, "/does/not/exist") }, "no such file"},
		"not a file":     {func(a *Archive) { a.AddCopy("/x", 0o644, "/dev/null") }, "not a file"},
		"below a file":   {func(a *Archive) { a.AddFile("/x", 0o644, nil); a.AddFile("/x/y", 0o644, nil) }, "below a file"},
		"below a link":   {func(a *Archive) { a.AddLink("/x", "z"); a.AddFile("/x/y", 0o644, nil) }, "below a file"},
	} {
		t.Run(name, func(t *testing.T) {
			var a Archive
			tt.add(&a)
			if err := a.Write(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %q in it", err, tt.want)
			}
		})
	}
}

// TestProgramRuns: a dynamic program runs with nothing but what was added.
func TestProgramRuns(t *testing.T) {
	var a Archive
	a.AddLink("/lib", "usr/lib")
	a.AddLink("/lib64", "usr/lib64")
	if err := a.AddProgram("ls"); err != nil {
		t.Fatal(err)
	}
	dir := unpack(t, write(t, &a))
	file, err := exec.LookPath("ls")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("chroot", dir, merged(file), "/").CombinedOutput()
	if err != nil || string(out) != "lib\nlib64\nusr\n" {
		t.Errorf("ls prints %q, %v", out, err)
	}
}

// TestProgramsOfAnotherRoot: links in it stay in it, wherever they point.
func TestProgramsOfAnotherRoot(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "usr/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	real, err := exec.LookPath("busybox") // static: brings nothing
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(real)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "usr/bin/real"), text, 0o755); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"absolute": "/usr/bin/real", "relative": "real", "up": "../../../../usr/bin/real", "round": "round"} {
		if err := os.Symlink(target, filepath.Join(root, "usr/bin", link)); err != nil {
			t.Fatal(err)
		}
	}
	a := &Archive{Root: root}
	for _, name := range []string{"real", "absolute", "relative", "up"} {
		if err := a.AddProgram(name); err != nil {
			t.Error(err)
		}
		if got := a.entries["usr/bin/"+name].source; got != filepath.Join(root, "usr/bin/real") {
			t.Errorf("%s comes from %s", name, got)
		}
	}
	for _, name := range []string{"round", "ls"} { // ls is on this machine
		if err := a.AddProgram(name); !errors.Is(err, exec.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProgramThatIsNotThere(t *testing.T) {
	var a Archive
	if err := a.AddProgram("no-such-program"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("error is %v", err)
	}
	if _, err := (&Archive{}).findLibrary("libnothing.so.9"); !errors.Is(err, ErrNoLibrary) {
		t.Errorf("error is %v", err)
	}
}
