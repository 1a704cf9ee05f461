package bpf

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

func TestExecAndExitStampTheTopLayer(t *testing.T) {
	p := load(t, Options{})
	bottom := busyboxLayer(t)
	used := overlay(t, filepath.Join(t.TempDir(), "top"), bottom)
	idle := overlay(t)
	track(t, p, used.key, idle.key, keyOfPath(t, bottom))

	before := now(t)
	used.run(t, "true")

	wantUsedSince(t, p, used.key, before)
	wantUnused(t, p, idle.key)
	wantUnused(t, p, keyOfPath(t, bottom)) // a lower layer is not the image
	uses, err := p.LastUses()
	if err != nil {
		t.Fatal(err)
	}
	if len(uses) != 1 || uses[used.key] != lastUse(t, p, used.key) {
		t.Fatalf("LastUses() = %v", uses)
	}
	if n := usesOf(t, p, used.key); n != 2 {
		t.Fatalf("%d uses, want the exec and the exit", n)
	}
}

// usesOf reads the kernel's count of execs and exits.
func usesOf(t *testing.T, p *Probes, k Key) uint64 {
	t.Helper()
	var stamp lastuseStamp
	if err := p.table.stamps.Lookup(p.table.slots[k], &stamp); err != nil {
		t.Fatal(err)
	}
	return stamp.Uses
}

func TestImageWithOneLayer(t *testing.T) {
	p := load(t, Options{})
	r := overlay(t, busyboxLayer(t))
	track(t, p, r.key)
	before := now(t)
	r.run(t, "true")
	wantUsedSince(t, p, r.key, before)
}

func TestSleepingProcessIsStampedAtItsEnd(t *testing.T) {
	p := load(t, Options{})
	r := overlay(t)
	track(t, p, r.key)
	end := r.hold(t)
	started := lastUse(t, p, r.key)
	if started == 0 {
		t.Fatal("exec was not stamped")
	}
	before := now(t)
	if last := lastUse(t, p, r.key); last != started {
		t.Fatalf("stamp moved from %d to %d while the process slept", started, last)
	}
	end()
	wantUsedSince(t, p, r.key, before)
}

func TestReadingIsNotUse(t *testing.T) {
	p := load(t, Options{})
	image, reader := overlay(t), overlay(t)
	track(t, p, image.key, reader.key)
	readAll := func(dir string) {
		t.Helper()
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.Copy(io.Discard, f)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(image.top, "data"), []byte("data"), 0o644); err != nil {
		t.Fatal(err)
	}
	readAll(image.top)
	readAll(image.dir)

	// A container that has the host's directories, as a hostPath gives them.
	for _, source := range []string{image.top, image.dir} {
		mnt := filepath.Join(reader.dir, "mnt")
		if err := unix.Mount(source, mnt, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		before := now(t)
		out := reader.run(t, "find", "/mnt", "-type", "f", "-exec", "/bin/busybox", "md5sum", "{}", ";")
		unmount(t, mnt)
		if out == "" {
			t.Fatal("the container read nothing")
		}
		wantUsedSince(t, p, reader.key, before)
	}
	wantUnused(t, p, image.key)

	// The host running a file of the image is not a container of it either.
	host := rootfs{dir: "/"}
	host.command("true").Run()
	wantUnused(t, p, image.key)
}

func TestUseBeforeTrackIsTakenOver(t *testing.T) {
	p := load(t, Options{})
	r := overlay(t)
	before := now(t)
	r.run(t, "true")
	wantUnused(t, p, r.key) // not tracked: not known
	track(t, p, r.key)
	wantUsedSince(t, p, r.key, before)
	first := lastUse(t, p, r.key)

	track(t, p, r.key) // again: nothing happens
	if last := lastUse(t, p, r.key); last != first {
		t.Fatalf("tracking twice moved the stamp from %d to %d", first, last)
	}
	if noted, err := lookupOrZero(p.table.unresolved, r.key); noted != 0 || err != nil {
		t.Fatalf("unresolved still has %d, %v", noted, err)
	}
}

// A program that missed the key just before it was tracked writes to
// unresolved afterwards. Here the test does that instead.
func TestStragglerIsNotForgotten(t *testing.T) {
	p := load(t, Options{})
	k := Key{Dev: 1 << 40, Ino: 7}
	track(t, p, k)
	if err := p.table.unresolved.Put(k, uint64(1234)); err != nil {
		t.Fatal(err)
	}
	if err := p.Purge(5000); err != nil {
		t.Fatal(err)
	}
	if last := lastUse(t, p, k); last != 1234 {
		t.Fatalf("last use %d, want the straggler's 1234", last)
	}
	uses, err := p.LastUses()
	if err != nil || uses[k] != 1234 {
		t.Fatalf("LastUses() = %v, %v", uses, err)
	}
	if err := p.Untrack(k); err != nil {
		t.Fatal(err)
	}
	track(t, p, k)
	wantUnused(t, p, k)
}

func TestUnresolvedFullIsCountedAndKeepsWhatItHas(t *testing.T) {
	p := load(t, Options{})
	known, unknown := overlay(t), overlay(t)
	track(t, p, known.key)
	for ino := uint64(1); ; ino++ {
		err := p.table.unresolved.Update(Key{Dev: 1 << 40, Ino: ino}, uint64(1), ebpf.UpdateNoExist)
		if errors.Is(err, unix.E2BIG) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	was := counters(t, p)
	before := now(t)
	unknown.run(t, "true")
	known.run(t, "true")
	if lost := counters(t, p).UnresolvedLost - was.UnresolvedLost; lost < 2 {
		t.Fatalf("%d losses counted, want at least the exec and the exit", lost)
	}
	wantUsedSince(t, p, known.key, before)

	// Old entries make room, and only they.
	if err := p.Purge(before); err != nil {
		t.Fatal(err)
	}
	again := now(t)
	unknown.run(t, "true")
	if err := p.Purge(again); err != nil {
		t.Fatal(err)
	}
	track(t, p, unknown.key)
	wantUsedSince(t, p, unknown.key, again)
}

func TestSlotsAreReusedWithoutTheirPast(t *testing.T) {
	p := load(t, Options{MaxLayers: 2})
	a, b, c := overlay(t), overlay(t), overlay(t)
	track(t, p, a.key, b.key)
	a.run(t, "true")
	if err := p.Track(c.key); !errors.Is(err, ErrFull) {
		t.Fatalf("third layer in two slots: %v", err)
	}
	slot := p.table.slots[a.key]
	if err := p.Untrack(a.key); err != nil {
		t.Fatal(err)
	}
	wantUnused(t, p, a.key)
	track(t, p, c.key)
	if p.table.slots[c.key] != slot {
		t.Fatalf("slot %d was not used again", slot)
	}
	wantUnused(t, p, c.key)
	before := now(t)
	c.run(t, "true")
	wantUsedSince(t, p, c.key, before)
	if err := p.Untrack(a.key); err != nil {
		t.Fatalf("untrack what is not tracked: %v", err)
	}
}

func TestOverlaysAreFollowed(t *testing.T) {
	p := load(t, Options{})
	was := counters(t, p)
	r := overlay(t)
	track(t, p, r.key)
	r.run(t, "true")
	is := counters(t, p)
	if is.Execs == was.Execs || is.Exits == was.Exits || is.Stamped < was.Stamped+2 {
		t.Fatalf("counters went from %+v to %+v", was, is)
	}
	if is.UnreadableLost != 0 {
		t.Fatalf("%d overlays could not be followed", is.UnreadableLost)
	}
}
