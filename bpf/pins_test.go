package bpf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

func TestRecordingGoesOnWhileClosed(t *testing.T) {
	o := Options{PinDir: pinDir(t)}
	p := load(t, o)
	tracked, unknown := overlay(t), overlay(t)
	track(t, p, tracked.key)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatalf("close again: %v", err)
	}
	before := now(t)
	tracked.run(t, "true")
	unknown.run(t, "true")

	p = load(t, o)
	for _, s := range p.Status() {
		if s.Attached && !s.Adopted {
			t.Errorf("%s was not adopted", s.Name)
		}
	}
	if keys := p.Tracked(); len(keys) != 1 || keys[0] != tracked.key {
		t.Fatalf("Tracked() = %v", keys)
	}
	wantUsedSince(t, p, tracked.key, before)
	track(t, p, unknown.key)
	wantUsedSince(t, p, unknown.key, before)
	if p.Lost() {
		t.Error("nothing was lost")
	}

	// Untracked before the restart: the slot comes back clean after it.
	if err := p.Untrack(tracked.key); err != nil {
		t.Fatal(err)
	}
	p = reload(t, p, o)
	track(t, p, tracked.key)
	wantUnused(t, p, tracked.key)
}

func TestNewLayoutTakesOverTheOldOnesStamps(t *testing.T) {
	o := Options{PinDir: pinDir(t), MaxLayers: 64}
	p := load(t, o)
	used, idle, unknown := overlay(t), overlay(t), overlay(t)
	track(t, p, used.key, idle.key)
	before := now(t)
	used.run(t, "true")
	unknown.run(t, "true")
	stamp := lastUse(t, p, used.key)
	end := used.hold(t)

	o.MaxLayers = 128
	p = reload(t, p, o)
	if p.Status()[0].Adopted || !p.Status()[2].Adopted {
		t.Fatalf("want last use replaced and usage adopted: %+v", p.Status())
	}
	if last := lastUse(t, p, used.key); last < stamp {
		t.Fatalf("stamp went from %d to %d", stamp, last)
	}
	wantUnused(t, p, idle.key)
	track(t, p, unknown.key)
	wantUsedSince(t, p, unknown.key, before)
	middle := now(t)
	end()
	wantUsedSince(t, p, used.key, middle)
	if p.Lost() {
		t.Error("nothing was lost")
	}
	wantSets(t, o.PinDir, len(objectsByName(t)))
}

// wantSets checks that only the current sets are pinned.
func wantSets(t *testing.T, dir string, n int) {
	t.Helper()
	sets, err := filepath.Glob(filepath.Join(dir, "*-*"))
	if err != nil || len(sets) != n {
		t.Fatalf("pinned are %v, %v; want %d sets", sets, err, n)
	}
}

func TestTooSmallSuccessorReportsLostStamps(t *testing.T) {
	o := Options{PinDir: pinDir(t), MaxLayers: 4}
	p := load(t, o)
	for ino := range uint64(4) {
		track(t, p, Key{Dev: 1 << 40, Ino: ino + 1})
	}
	o.MaxLayers = 2
	p = reload(t, p, o)
	if !p.Lost() || len(p.Tracked()) != 2 {
		t.Fatalf("Lost() = %v with %v", p.Lost(), p.Tracked())
	}
}

// TestFullTableIsCarriedOver: a table full of uses of other people's directories
// costs an upgrade the oldest of them, no stamp, and is no reason to distrust any.
func TestFullTableIsCarriedOver(t *testing.T) {
	o := Options{PinDir: pinDir(t), MaxLayers: 16}
	p := load(t, o)
	r := overlay(t)
	track(t, p, r.key)
	r.run(t, "true")
	stamp := lastUse(t, p, r.key)
	for ino := uint64(1); ; ino++ { // the later, the larger
		err := p.table.unresolved.Update(Key{Dev: 1 << 40, Ino: ino}, ino, ebpf.UpdateNoExist)
		if errors.Is(err, unix.E2BIG) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// One more entry than the successor has room for.
	object, err := lastUseObject(32)
	if err != nil {
		t.Fatal(err)
	}
	object.spec.Maps[lastuseMapUnresolved].MaxEntries--
	small, err := ebpf.NewMap(object.spec.Maps[lastuseMapUnresolved])
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	carried := &layerTable{unresolved: small}
	if err := carryUnresolved(carried, p.table.unresolved); err != nil || carried.lost != 1 {
		t.Errorf("%d lost, %v; want the oldest one", carried.lost, err)
	}
	if oldest, err := lookupOrZero(small, Key{Dev: 1 << 40, Ino: 1}); oldest != 0 || err != nil {
		t.Errorf("the oldest use was kept: %d, %v", oldest, err)
	}

	o.MaxLayers = 32
	p = reload(t, p, o)
	if p.Lost() || lastUse(t, p, r.key) != stamp {
		t.Errorf("Lost() = %v, last use %d, want %d", p.Lost(), lastUse(t, p, r.key), stamp)
	}
}

func TestDamagedPinsAreReplaced(t *testing.T) {
	object, err := lastUseObject(DefaultMaxLayers)
	if err != nil {
		t.Fatal(err)
	}
	for _, missing := range []string{"links/lastuse_exit", "maps/lastuse_counts", "links"} {
		t.Run(strings.ReplaceAll(missing, "/", " "), func(t *testing.T) {
			o := Options{PinDir: pinDir(t)}
			p := load(t, o)
			r := overlay(t)
			track(t, p, r.key)
			before := now(t)
			r.run(t, "true")
			set := (&pins{dir: o.PinDir}).dirOf(object)
			if err := os.RemoveAll(filepath.Join(set, missing)); err != nil {
				t.Fatal(err)
			}
			p = reload(t, p, o)
			wantUsedSince(t, p, r.key, before)
			wantSets(t, o.PinDir, len(objectsByName(t)))
			again := now(t)
			r.run(t, "true")
			wantUsedSince(t, p, r.key, again)
			if p.Lost() {
				t.Error("the stamps were readable")
			}
		})
	}
}

func TestUnreadableEarlierStampsAreReported(t *testing.T) {
	o := Options{PinDir: pinDir(t)}
	p := load(t, o)
	foreign := filepath.Join(o.PinDir, objectLastUse+"-0123", "maps")
	if err := os.MkdirAll(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, name := range []string{lastuseMapLayers, lastuseMapStamps, lastuseMapUnresolved} {
		if err := m.Pin(filepath.Join(foreign, name)); err != nil {
			t.Fatal(err)
		}
	}
	p = reload(t, p, o)
	if !p.Lost() {
		t.Error("Lost() = false with stamps of a foreign layout")
	}
	wantSets(t, o.PinDir, len(objectsByName(t)))
	if p = reload(t, p, o); p.Lost() {
		t.Error("Lost() stays true although the earlier stamps are gone permanently")
	}
}

func TestImpossibleSlotsAreDropped(t *testing.T) {
	o := Options{PinDir: pinDir(t), MaxLayers: 4}
	p := load(t, o)
	good, bad := Key{Dev: 1 << 40, Ino: 1}, Key{Dev: 1 << 40, Ino: 2}
	track(t, p, good)
	if err := p.table.layers.Put(bad, uint32(99)); err != nil {
		t.Fatal(err)
	}
	p = reload(t, p, o)
	if keys := p.Tracked(); len(keys) != 1 || keys[0] != good || !p.Lost() {
		t.Fatalf("Tracked() = %v, Lost() = %v", keys, p.Lost())
	}
}

// TestCrashAtAnyStep kills a process at every change it makes to the pins, in
// turn, and expects the next Load to mend what it left, without losing a stamp.
func TestCrashAtAnyStep(t *testing.T) {
	dir := pinDir(t)
	r := overlay(t)
	o := Options{PinDir: dir, MaxLayers: 16}
	p := load(t, o)
	track(t, p, r.key)
	for step := 1; ; step++ {
		before := now(t)
		r.run(t, "true")
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		o.MaxLayers = 16 + uint32(step) // a new layout each time
		cmd := helperCommand("crash", dir, fmt.Sprint(envCrashStep, "=", step), fmt.Sprint(envMaxLayers, "=", o.MaxLayers))
		out, err := cmd.CombinedOutput()
		if err == nil {
			if step < 10 {
				t.Fatalf("only %d steps: %s", step, out)
			}
			return // there is no such step: all were tried
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
			t.Fatalf("step %d: %v: %s", step, err, out)
		}
		p = load(t, o)
		wantSets(t, dir, len(objectsByName(t)))
		wantUsedSince(t, p, r.key, before)
		if p.Lost() {
			t.Fatalf("step %d (%s): stamps lost", step, out)
		}
		if len(p.Tracked()) != 1 {
			t.Fatalf("step %d (%s): tracked %v", step, out, p.Tracked())
		}
	}
}

func TestOneProcessAtATime(t *testing.T) {
	o := Options{PinDir: pinDir(t)}
	p := load(t, o)
	if _, err := Load(context.Background(), o); !errors.Is(err, ErrInUse) {
		t.Fatalf("second Load: %v", err)
	}
	if err := Unload(o.PinDir); !errors.Is(err, ErrInUse) {
		t.Fatalf("Unload while in use: %v", err)
	}
	track(t, p, Key{Dev: 1 << 40, Ino: 1})
}

func TestUnloadEndsRecording(t *testing.T) {
	o := Options{PinDir: pinDir(t)}
	p := load(t, o)
	r := overlay(t)
	track(t, p, r.key)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := Unload(o.PinDir); err != nil {
			t.Fatal(err)
		}
	}
	wantSets(t, o.PinDir, 0)
	r.run(t, "true")
	p = load(t, o)
	if keys := p.Tracked(); len(keys) != 0 {
		t.Fatalf("Tracked() = %v after Unload", keys)
	}
	track(t, p, r.key)
	wantUnused(t, p, r.key)
	if err := Unload(filepath.Join(t.TempDir(), "nothing", "here")); err != nil {
		t.Fatalf("unload where nothing is: %v", err)
	}
}

func TestClosedProbesAnswerWithErrors(t *testing.T) {
	p := load(t, Options{})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, lastUse := p.LastUse(Key{})
	_, lastUses := p.LastUses()
	for name, err := range map[string]error{
		"Track": p.Track(Key{}), "Untrack": p.Untrack(Key{}), "LastUse": lastUse, "LastUses": lastUses,
		"Purge": p.Purge(1), "SetWatermark": p.SetWatermark(1, "ext4", Watermark{}), "ClearWatermark": p.ClearWatermark(1),
		"Crossings": p.Crossings(context.Background(), nil),
	} {
		if !errors.Is(err, ErrNotAttached) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(p.Tracked()) != 0 || p.Status()[0].Attached {
		t.Error("closed probes claim to work")
	}
}

func TestLoadReportsWhatIsMissing(t *testing.T) {
	needRoot(t)
	dir := pinDir(t)
	load(t, Options{PinDir: dir}).Close() // mounts the bpffs
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700) // or it would not be unloaded
	for path := dir; path != os.TempDir(); path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	cmd := helperCommand("load", filepath.Join(dir, "nobody"))
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitNotPermitted {
		t.Fatalf("load as nobody: %v: %s", err, out)
	}
	for _, name := range []string{"CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN"} {
		if !strings.Contains(string(out), name) {
			t.Errorf("%s is not named in %q", name, out)
		}
	}
}

func TestLoadRefusesBadOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"relative":  {PinDir: "pins"},
		"empty":     {},
		"too large": {PinDir: "/sys/fs/bpf/x", MaxLayers: maxMaxLayers + 1},
	} {
		if p, err := Load(context.Background(), o); err == nil {
			p.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

func TestCancelledLoad(t *testing.T) {
	o := Options{PinDir: pinDir(t)}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Load(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("Load with a cancelled context: %v", err)
	}
	load(t, o)
}
