package bpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// eachTier runs a test on every tier that this kernel has.
func eachTier(t *testing.T, test func(t *testing.T, o Options)) {
	for _, tier := range []string{HeatByFentry, HeatByKprobe, HeatByPages, HeatByReads} {
		t.Run(tier, func(t *testing.T) {
			needRoot(t)
			if why := tierMissing(t, tier); why != "" {
				t.Skipf("SKIPPED: this kernel has no %s: %s", tier, why)
			}
			test(t, Options{PinDir: pinDir(t), heatTiers: []string{tier}})
		})
	}
}

// loadAlone loads nothing but layer heat, which is much faster.
func loadAlone(t testing.TB, o Options) *Probes {
	t.Helper()
	needRoot(t)
	if o.PinDir == "" {
		o.PinDir = pinDir(t)
	}
	o.only = objectHeat
	p, err := Load(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	if p.heat.set == nil {
		t.Fatal(p.HeatTier())
	}
	return p
}

// tierMissing asks the kernel itself, with programs that do nothing.
func tierMissing(t *testing.T, tier string) string {
	spec := &ebpf.ProgramSpec{
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}, License: "GPL", AttachTo: "security_file_open",
	}
	switch tier {
	case HeatByFentry:
		spec.Type, spec.AttachType = ebpf.Tracing, ebpf.AttachTraceFEntry
	case HeatByKprobe:
		spec.Type = ebpf.Kprobe
	default:
		types, err := btf.LoadKernelSpec()
		if err != nil {
			t.Fatal(err)
		}
		var tracepoint *btf.Typedef
		if err := types.TypeByName("btf_trace_mm_filemap_map_pages", &tracepoint); err != nil {
			return err.Error()
		}
		return ""
	}
	program, err := ebpf.NewProgram(spec)
	if err != nil {
		return err.Error()
	}
	defer program.Close()
	var l link.Link
	if tier == HeatByKprobe {
		l, err = link.Kprobe("security_file_open", program, nil)
	} else {
		l, err = link.AttachTracing(link.TracingOptions{Program: program})
	}
	if err != nil {
		return err.Error()
	}
	l.Close()
	return ""
}

// layer makes a directory with files "0", "1", …, of which the n-th has n*1000+1
// bytes and every second one lies in a directory of its own.
func layer(t testing.TB, dir string, files int) string {
	t.Helper()
	mkdir(t, dir)
	for n := range files {
		path := filepath.Join(dir, layerFile(n))
		mkdir(t, filepath.Dir(path))
		if err := os.WriteFile(path, make([]byte, n*1000+1), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func layerFile(n int) string {
	if n%2 == 1 {
		return fmt.Sprintf("d%d/e/%d", n, n)
	}
	return fmt.Sprint(n)
}

// blocks is what a file of layer takes.
func layerBytes(files ...int) (bytes uint64) {
	for _, n := range files {
		bytes += uint64(n*1000+1+4095) &^ 4095
	}
	return bytes
}

// inside does something as a process of the container: the thread's root is the
// container's until it returns.
func (r rootfs) inside(t testing.TB, do func() error) {
	t.Helper()
	if err := inside(r.dir, do); err != nil {
		t.Fatal(err)
	}
}

func inside(root string, do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is not used again
		host, err := os.Open("/")
		if err == nil {
			err = unix.Unshare(unix.CLONE_FS)
		}
		if err == nil {
			err = unix.Chroot(root)
		}
		if err == nil {
			err = unix.Chdir("/")
		}
		if err == nil {
			// The thread may live on, or be the one that /proc/self refers to.
			err = errors.Join(do(), host.Chdir(), unix.Chroot("."))
		}
		host.Close()
		done <- err
	}()
	return <-done
}

// touch reads files in every way there is a tier for: it opens, reads and maps.
func touch(paths ...string) error {
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		_, err = f.Read(make([]byte, 1))
		if err == nil {
			err = fault(f)
		}
		f.Close()
		if err != nil {
			return fmt.Errorf("touch %s: %w", path, err)
		}
	}
	return nil
}

// fault reads the first byte through a mapping.
func fault(f *os.File) error {
	page, err := unix.Mmap(int(f.Fd()), 0, 1, unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	runtime.KeepAlive(page[0] + 1)
	if page[0] != 0 {
		return errors.New("the files here are all zero")
	}
	return unix.Munmap(page)
}

func (r rootfs) touch(t testing.TB, paths ...string) {
	t.Helper()
	r.inside(t, func() error { return touch(paths...) })
}

// heat reads what is known of each directory; zero if nothing.
func heatOf(t testing.TB, p *Probes, dir string) (found LayerHeat) {
	t.Helper()
	all, err := p.Heat()
	if err != nil {
		t.Fatal(err)
	}
	key := keyOfPath(t, dir)
	for _, l := range all {
		if l.Filesystem == key.Dev && l.Inode == key.Ino && l.SinceNS >= found.SinceNS {
			found = l
		}
	}
	return found
}

func wantHeat(t testing.TB, p *Probes, dir string, files ...int) {
	t.Helper()
	got := heatOf(t, p, dir)
	if got.Files != uint64(len(files)) || got.Bytes != layerBytes(files...) || got.Lost != 0 {
		t.Errorf("%s: %+v, want %d files with %d bytes", filepath.Base(dir), got, len(files), layerBytes(files...))
	}
}

func wantNothingLost(t testing.TB, p *Probes) {
	t.Helper()
	for _, lost := range counters(t, p).Lost() {
		if strings.HasPrefix(lost.Event, "heat_") && lost.Count != 0 {
			t.Errorf("lost %s: %d", lost.Event, lost.Count)
		}
	}
}

func TestHeatCountsEachFileOnce(t *testing.T) {
	eachTier(t, func(t *testing.T, o Options) {
		p := loadAlone(t, o)
		base := t.TempDir()
		bottom, middle := layer(t, base+"/bottom", 8), layer(t, base+"/middle", 4)
		one := overlay(t, base+"/one", middle, bottom)
		two := overlay(t, base+"/two", bottom)
		since := now(t)
		for range 3 {
			one.touch(t, layerFile(1), layerFile(2), layerFile(5)) // 1 and 2 hide those of the bottom
		}
		wantHeat(t, p, bottom, 5)
		wantHeat(t, p, middle, 1, 2)
		wantHeat(t, p, one.top)
		two.touch(t, layerFile(5), layerFile(6), layerFile(1)) // another container shares a layer
		wantHeat(t, p, bottom, 5, 6, 1)
		wantHeat(t, p, middle, 1, 2)
		if l := heatOf(t, p, bottom); l.SinceNS < since || l.SinceNS > now(t) {
			t.Errorf("since %d, want %d to now", l.SinceNS, since)
		}
		wantNothingLost(t, p)
	})
}

// Layers of which nothing was read are distinguished from those that were in nobody's root.
func TestHeatKnowsUnreadLayers(t *testing.T) {
	eachTier(t, func(t *testing.T, o Options) {
		p := loadAlone(t, o)
		base := t.TempDir()
		bottom, middle := layer(t, base+"/bottom", 8), layer(t, base+"/middle", 4)
		unused := layer(t, base+"/unused", 4)
		one := overlay(t, base+"/one", middle, bottom)
		two := overlay(t, base+"/two", bottom) // its base was seen with another image
		overlay(t, base+"/three", unused)      // nobody runs there
		one.touch(t, layerFile(5))
		for _, dir := range []string{one.top, middle, bottom} {
			if l := heatOf(t, p, dir); l.SinceNS == 0 {
				t.Errorf("%s is not known: %+v", filepath.Base(dir), l)
			}
		}
		if l := heatOf(t, p, two.top); l.SinceNS != 0 {
			t.Errorf("nobody has touched a file there: %+v", l)
		}
		two.touch(t, layerFile(6))
		if l := heatOf(t, p, two.top); l.SinceNS == 0 {
			t.Error("the second image is not known, whose base was known before")
		}
		wantHeat(t, p, bottom, 5, 6)
		wantHeat(t, p, middle)
		for _, dir := range []string{unused, base + "/three"} {
			if l := heatOf(t, p, dir); l.SinceNS != 0 {
				t.Errorf("%s was in nobody's root: %+v", filepath.Base(dir), l)
			}
		}
		wantNothingLost(t, p)
	})
}

func TestHeatNamesItsTier(t *testing.T) {
	eachTier(t, func(t *testing.T, o Options) {
		p := loadAlone(t, o)
		if tier, err := p.HeatTier(); tier != o.heatTiers[0] || err != nil {
			t.Errorf("tier is %s, %v", tier, err)
		}
		for _, s := range p.Status() {
			if s.Object == objectHeat && heatAttach[o.heatTiers[0]][s.Name] != s.AttachPoint {
				t.Errorf("%+v", s)
			}
		}
	})
	best := load(t, Options{})
	if tier, err := best.HeatTier(); err != nil || tierMissing(t, HeatByFentry) == "" && tier != HeatByFentry {
		t.Errorf("the best tier is %s, %v", tier, err)
	}
}

// What is not a container's own image makes nothing warm.
func TestHeatOfUntrackedFiles(t *testing.T) {
	eachTier(t, func(t *testing.T, o Options) {
		p := loadAlone(t, o)
		image, reader := busyLayer(t, 6), busyLayer(t, 6)
		bind := func(source string) string {
			mnt := filepath.Join(reader.dir, "mnt")
			if err := unix.Mount(source, mnt, "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { unix.Unmount(mnt, unix.MNT_DETACH) })
			return "/mnt/" + layerFile(1)
		}
		// The host: directly and through the container's root.
		if err := touch(filepath.Join(image.top, layerFile(0)), filepath.Join(image.dir, layerFile(1))); err != nil {
			t.Fatal(err)
		}
		// A DaemonSet with hostPath: the layer, another container's root.
		reader.touch(t, bind(image.top))
		reader.touch(t, bind(image.dir))
		wantHeat(t, p, image.top)
		// Its own layer by the same way: only who sees the open can tell.
		reader.touch(t, bind(reader.top))
		own := []int{}
		if !slices.Contains([]string{HeatByFentry, HeatByKprobe}, o.heatTiers[0]) {
			own = []int{1}
		}
		wantHeat(t, p, reader.top, own...)
		// What it wrote itself is no layer.
		reader.inside(t, func() error {
			err := os.WriteFile("/written", []byte{0}, 0o600)
			return errors.Join(err, touch("/written"))
		})
		wantHeat(t, p, reader.top, own...)
		wantHeat(t, p, image.top)
		// And still the image's own container counts.
		image.touch(t, layerFile(1))
		wantHeat(t, p, image.top, 1)
		wantNothingLost(t, p)
	})
}

// busyLayer is a container of one layer with files, and a place to mount.
func busyLayer(t *testing.T, files int) rootfs {
	t.Helper()
	dir := layer(t, filepath.Join(t.TempDir(), "layer"), files)
	mkdir(t, filepath.Join(dir, "mnt"))
	return overlay(t, dir)
}

// Two filesystems made alike have the same inode numbers for different files,
// and an overlay shows the numbers of the files below it.
func TestHeatSameInodeNumbers(t *testing.T) {
	eachTier(t, func(t *testing.T, o Options) {
		p := loadAlone(t, o)
		one, two := newExt4(t, "-b", "4096"), newExt4(t, "-b", "4096")
		a, b := layer(t, one.dir+"/layer", 6), layer(t, two.dir+"/layer", 6)
		r, s := overlay(t, a), overlay(t, b)
		path := layerFile(3)
		for _, dir := range []string{b, r.dir, s.dir} {
			if got, want := keyOfPath(t, filepath.Join(dir, path)).Ino, keyOfPath(t, filepath.Join(a, path)).Ino; got != want {
				t.Fatalf("inode of %s is %d, want %d as below", dir, got, want)
			}
		}
		r.touch(t, path, layerFile(4))
		wantHeat(t, p, a, 3, 4)
		wantHeat(t, p, b)
		s.touch(t, path)
		wantHeat(t, p, a, 3, 4)
		wantHeat(t, p, b, 3)
	})
}
