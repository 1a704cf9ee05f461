package bpf

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"
)

// modules replaces the kernel's list: those in it are not loaded.
type modules struct {
	mu     sync.Mutex
	absent map[string]bool
}

func (m *modules) isAbsent(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.absent[name]
}

func (m *modules) insert(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.absent, name)
}

// loadWaiting is load without the demand that all be attached.
func loadWaiting(t testing.TB, o Options) *Probes {
	t.Helper()
	if o.PinDir == "" {
		o.PinDir = pinDir(t)
	}
	p, err := Load(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// attachedObjects returns the objects of which every program is attached.
func attachedObjects(t testing.TB, p *Probes) []string {
	t.Helper()
	all := map[string]bool{}
	for _, s := range p.Status() {
		attached, seen := all[s.Object]
		all[s.Object] = s.Working() && (attached || !seen)
		if !s.Working() && s.Reason == "" {
			t.Errorf("%s is not attached and no reason is reported", s.Name)
		}
	}
	maps.DeleteFunc(all, func(_ string, attached bool) bool { return !attached })
	return slices.Sorted(maps.Keys(all))
}

func catchUp(t testing.TB, p *Probes, want bool) {
	t.Helper()
	if came, err := p.CatchUp(); err != nil || came != want {
		t.Fatalf("CatchUp: %v, %v; want %v", came, err, want)
	}
}

// TestEachModuleBringsItsPrograms: whatever is loaded late, in whatever order, is
// taken up then, also by a reader of crossings that began before, and nothing
// else is disturbed.
func TestEachModuleBringsItsPrograms(t *testing.T) {
	m := &modules{absent: map[string]bool{"overlay": true, "ext4": true, "xfs": true, "btrfs": true}}
	p := loadWaiting(t, Options{absent: m.isAbsent})
	// What sees cgroups end needs no filesystem.
	if all := attachedObjects(t, p); !slices.Equal(all, []string{objectWriters}) {
		t.Fatalf("attached without their modules: %v", all)
	}
	catchUp(t, p, false)
	if _, err := p.LastUses(); !errors.Is(err, ErrNotAttached) || !errors.Is(err, ErrUnsupported) {
		t.Errorf("last uses: %v", err)
	}
	crossings := readAll(t, p)
	for _, kind := range []string{"xfs", "ext4", "btrfs"} {
		if err := p.SetWatermark(1, kind, Watermark{}); p.CanWatch(kind) || !errors.Is(err, ErrNotAttached) {
			t.Errorf("watermark of a %s before its module: %v", kind, err)
		}
		m.insert(kind)
		catchUp(t, p, true)
		catchUp(t, p, false)
		cross(t, p, newKind(t, kind), crossings)
	}
	r := overlay(t)
	m.insert("overlay")
	catchUp(t, p, true)
	track(t, p, r.key)
	before := now(t)
	r.run(t, "true")
	wantUsedSince(t, p, r.key, before)
	want := slices.Collect(maps.Keys(objectsByName(t)))
	slices.Sort(want)
	if got := attachedObjects(t, p); !slices.Equal(got, want) {
		t.Errorf("attached are %v, want %v", got, want)
	}
}

// TestUnusable: Load fails if nothing works, unless a module is all that lacks.
func TestUnusable(t *testing.T) {
	absent := error(&absentError{"xfs"})
	for name, tt := range map[string]struct {
		lastuse, ext4, xfs error
		unusable           bool
	}{
		"all is well":        {},
		"usage of one":       {lastuse: ErrUnsupported, xfs: absent},
		"nothing":            {ErrUnsupported, ErrUnsupported, ErrUnsupported, true},
		"nothing yet":        {absent, absent, absent, false},
		"one can come":       {ErrUnsupported, ErrUnsupported, absent, false},
		"nothing is allowed": {ErrNotPermitted, ErrNotPermitted, absent, true},
	} {
		c := concerns{lastuse: lastuse{attachment: attachment{err: tt.lastuse}}, usage: usage{on: map[string]usageSet{}}}
		for fsType, err := range map[string]error{"ext4": tt.ext4, "xfs": tt.xfs} {
			on := attachment{err: err}
			if err == nil {
				on.set = &set{}
			}
			c.usage.on[fsType] = usageSet{attachment: on}
		}
		if err := c.unusable(); (err != nil) != tt.unusable || err != nil && !errors.Is(err, tt.lastuse) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func objectsByName(t testing.TB) map[string]*object {
	t.Helper()
	all, err := objects(DefaultMaxLayers)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*object{}
	for _, o := range all {
		byName[o.name] = o
	}
	return byName
}

// readAll reads crossings until the test ends.
func readAll(t testing.TB, p *Probes) <-chan Crossing {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, done := make(chan Crossing), make(chan error, 1)
	go func() { done <- p.Crossings(ctx, out) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Crossings ended with %v", err)
		}
	})
	return out
}

// cross brings a filesystem to a watermark and waits for the event. btrfs has to come
// last: while it makes a block group it can send an event too many
// (usage_btrfs.bpf.c), which would be taken for the next filesystem's.
func cross(t testing.TB, p *Probes, fs *filesystem, crossings <-chan Crossing) {
	t.Helper()
	free, _ := fs.free(t)
	setWatermark(t, p, fs, Watermark{RaiseFree: free - 1000, RearmFree: free - 1000})
	defer clearWatermark(t, p, fs)
	fs.take(t, 200) // of 4 KiB; the watermark counts blocks of 1 or 4
	if is, _ := armed(t, p, fs); !is {
		t.Fatalf("%s: an event above the watermark", fs.kind)
	}
	fs.take(t, 900)
	if c := <-crossings; c.Dev != fs.dev {
		t.Fatalf("%s: crossing is %+v", fs.kind, c)
	}
}

// unloadVariable is set in a machine whose modules nobody else uses (tools/vm).
const unloadVariable = "EBB_TEST_UNLOAD_MODULES"

// unload takes modules out of the kernel, and the kernel's ability to fetch
// them by itself.
func unload(t testing.TB, names ...string) {
	t.Helper()
	needRoot(t)
	if os.Getenv(unloadVariable) == "" {
		t.Skipf("SKIPPED: %s is not set: the modules of this machine's filesystems are not this test's to unload, or are built in", unloadVariable)
	}
	const helper = "/proc/sys/kernel/modprobe"
	was, err := os.ReadFile(helper)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(helper, []byte("/bin/false\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(helper, was, 0o644); err != nil {
			t.Error(err)
		}
	})
	for _, name := range names {
		if !moduleLive(name) {
			continue // built in, or not loaded yet
		}
		t.Cleanup(func() { modprobe(t, name) }) // for whoever comes next
		rmmod(t, name)
	}
}

// rmmod waits for those who use a module: what a test before has unmounted or
// detached lets go of it a moment later, by RCU.
func rmmod(t testing.TB, name string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		out, err := exec.Command("rmmod", name).CombinedOutput()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("rmmod %s: %v: %s", name, err, out)
		}
	}
}

func modprobe(t testing.TB, name string) {
	t.Helper()
	if out, err := exec.Command("modprobe", name).CombinedOutput(); err != nil {
		t.Errorf("modprobe %s: %v: %s", name, err, out)
	}
}

// TestModulesLoadedLater is the same with the kernel's own modules, which it
// cannot load by itself here: uses and crossings are seen as soon as somebody
// has loaded one.
func TestModulesLoadedLater(t *testing.T) {
	unload(t, "overlay", "ext4", "xfs", "btrfs")
	p := loadWaiting(t, Options{})
	if slices.Contains(attachedObjects(t, p), objectLastUse) {
		t.Fatal("last use works without overlayfs: there is nothing to test")
	}
	catchUp(t, p, false)
	crossings := readAll(t, p)
	for _, kind := range fsTypes {
		late := !p.CanWatch(kind) // ext4 is built in on some
		modprobe(t, kind)
		catchUp(t, p, late)
		cross(t, p, newKind(t, kind), crossings)
	}
	modprobe(t, "overlay")
	r := overlay(t)
	before := now(t)
	catchUp(t, p, true)
	r.run(t, "true")
	track(t, p, r.key)
	wantUsedSince(t, p, r.key, before)
}

// TestOverlayIsAskedFor: where the kernel can load overlayfs, Load has it do so,
// so that the first container is seen, however short.
func TestOverlayIsAskedFor(t *testing.T) {
	unload(t, "overlay")
	if err := os.WriteFile("/proc/sys/kernel/modprobe", []byte("/sbin/modprobe\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := loadWaiting(t, Options{})
	before := now(t)
	r := overlay(t)
	r.run(t, "true")
	track(t, p, r.key)
	wantUsedSince(t, p, r.key, before)
}
