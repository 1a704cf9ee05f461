package bpf

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/tools/loopfs"
)

// Two filesystems that differ in their UUIDs alone, each with the files of
// layer(dir, 4): mkfs.erofs -T0 --all-root -U UUID, gzip.
var (
	//go:embed testdata/a.erofs.gz
	erofsA []byte // 11111111-2222-3333-4444-555555555555
	//go:embed testdata/b.erofs.gz
	erofsB []byte // aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee
)

// erofsUUID reads the UUID at its offset in the superblock (fs/erofs/erofs_fs.h).
func erofsUUID(image []byte) (uuid [16]byte) { return [16]byte(image[1024+48:]) }

func needErofs(t *testing.T) {
	t.Helper()
	needRoot(t)
	if fd, err := unix.Fsopen("erofs", unix.FSOPEN_CLOEXEC); err == nil { // loads the module
		unix.Close(fd)
	}
	if known, err := os.ReadFile("/proc/filesystems"); err != nil || !strings.Contains(string(known), "\terofs\n") {
		t.Skip("SKIPPED: this kernel has no erofs, or its module is not there")
	}
}

func unpackErofs(t *testing.T, packed []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	image, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// mountErofs mounts an image by a loop device and returns where, and its device.
func mountErofs(t *testing.T, image []byte) (dir string, dev uint64) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "layer.erofs"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(image); err != nil {
		t.Fatal(err)
	}
	loop, err := loopfs.Attach(file)
	if err != nil {
		t.Fatal(err)
	}
	defer loop.Close()
	dir = filepath.Join(t.TempDir(), "layer")
	mkdir(t, dir)
	if err := unix.Mount(loop.Name(), dir, "erofs", unix.MS_RDONLY, ""); err != nil {
		t.Fatalf("mount erofs: %v", err)
	}
	t.Cleanup(func() { unmount(t, dir) })
	return dir, keyOfPath(t, dir).Dev
}

func erofsHeat(t *testing.T, p *Probes, image []byte) (found LayerHeat) {
	t.Helper()
	all, err := p.Heat()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		if l.Filesystem == ErofsFilesystem(erofsUUID(image)) {
			found = l
		}
	}
	return found
}

// On the erofs snapshotter a layer is a filesystem, mounted as long as containers
// need it. Its device changes with each mount, and its inode numbers are those
// of other layers; its UUID stays.
func TestHeatOfErofsLayers(t *testing.T) {
	needErofs(t)
	a, b := unpackErofs(t, erofsA), unpackErofs(t, erofsB)
	eachTier(t, func(t *testing.T, o Options) {
		p := loadAlone(t, o)
		want := func(a0, b0 uint64) {
			t.Helper()
			if a, b := erofsHeat(t, p, a), erofsHeat(t, p, b); a.Files != a0 || b.Files != b0 || a.Bytes != a0*4096 || b.Bytes != b0*4096 {
				t.Errorf("a is %+v, want %d files; b is %+v, want %d", a, a0, b, b0)
			}
		}
		var devs [2]uint64
		t.Run("mounted", func(t *testing.T) {
			var lower [2]string
			lower[0], devs[0] = mountErofs(t, a)
			lower[1], devs[1] = mountErofs(t, b)
			one, two := erofsRoot(t, lower[0]), erofsRoot(t, lower[1])
			one.touch(t, layerFile(0), layerFile(1))
			want(2, 0)
			two.touch(t, layerFile(1))
			want(2, 1)
		})
		t.Run("mounted the other way round", func(t *testing.T) {
			lowerB, devB := mountErofs(t, b)
			lowerA, devA := mountErofs(t, a)
			if devA == devs[0] && devB == devs[1] {
				t.Log("other tests use loop devices: they came in the same order again")
			}
			erofsRoot(t, lowerB).touch(t, layerFile(1), layerFile(2))
			want(2, 2)
			erofsRoot(t, lowerA).touch(t, layerFile(1), layerFile(3))
			want(3, 2)
		})
		wantNothingLost(t, p)
	})
}

// erofsRoot is a container on one such layer.
func erofsRoot(t *testing.T, lower string) rootfs {
	t.Helper()
	base := t.TempDir()
	for _, name := range []string{"upper", "work", "root"} {
		mkdir(t, filepath.Join(base, name))
	}
	root := filepath.Join(base, "root")
	options := "lowerdir=" + lower + ",upperdir=" + base + "/upper,workdir=" + base + "/work"
	if err := unix.Mount("overlay", root, "overlay", 0, options); err != nil {
		t.Fatalf("mount overlay: %v", err)
	}
	t.Cleanup(func() { unmount(t, root) })
	return rootfs{dir: root}
}

// The same identity serves last use.
func TestLastUseOfErofsLayers(t *testing.T) {
	needErofs(t)
	image := unpackErofs(t, erofsA)
	p := load(t, Options{})
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatalf("%v (apt-get install busybox-static)", err)
	}
	var key Key
	for _, name := range []string{"mounted", "mounted again"} {
		t.Run(name, func(t *testing.T) {
			lower, _ := mountErofs(t, image)
			if key == (Key{}) {
				key = Key{Dev: ErofsFilesystem(erofsUUID(image)), Ino: keyOfPath(t, lower).Ino}
				track(t, p, key)
			}
			r := erofsRoot(t, lower)
			mkdir(t, filepath.Join(r.dir, "bin"))
			if err := os.WriteFile(filepath.Join(r.dir, "bin", "busybox"), busybox, 0o755); err != nil {
				t.Fatal(err)
			}
			before := now(t)
			r.run(t, "true")
			wantUsedSince(t, p, key, before)
		})
	}
}
