package bpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const writeMiB = "dd if=/dev/zero of=%s bs=64k count=%d status=none && sync %[1]s"

// write makes a file of n MiB.
func (a *actor) write(name string, n int) {
	a.t.Helper()
	a.do(fmt.Sprintf(writeMiB, name, 16*n))
}

// counting is a filesystem whose writers p counts.
func counting(t testing.TB, p *Probes) *filesystem {
	t.Helper()
	fs := newExt4(t)
	if err := p.CountWriters(fs.dev); err != nil {
		t.Fatal(err)
	}
	return fs
}

// wantGrown holds what a cgroup took against a number of MiB.
func wantGrown(t testing.TB, w Writer, mib uint64) {
	t.Helper()
	if w.Grown < mib<<20 || w.Grown > mib<<20+mib<<20/20+64<<10 {
		t.Errorf("cgroup %d grew by %d, want %d MiB", w.Cgroup, w.Grown, mib)
	}
}

func TestTwoWritersAtOnce(t *testing.T) {
	p := load(t, Options{})
	fs := counting(t, p)
	first, second := newActor(t, cgroup(t, "first"), fs.dir), newActor(t, cgroup(t, "second"), fs.dir)
	// Both begin before either has ended.
	first.send(fmt.Sprintf(writeMiB, "one", 128))
	second.send(fmt.Sprintf(writeMiB, "two", 64))
	first.await()
	second.await()
	wantGrown(t, writerIn(t, p, first.id), 8)
	wantGrown(t, writerIn(t, p, second.id), 4)
	// Who deletes shrinks, whoever wrote.
	second.do("rm one")
	if w := writerIn(t, p, second.id); w.Shrunk < 8<<20 || w.Removed != 1 {
		t.Errorf("who deleted: %+v", w)
	}
	if w := writerIn(t, p, first.id); w.Shrunk != 0 {
		t.Errorf("who wrote: %+v", w)
	}
}

var containerID = strings.Repeat("0a1b2c3d", 8)

// Groups below a cgroup that bears a container's id count for it, whatever
// they are called, while they live and after. Others count for themselves.
func TestNestedCgroups(t *testing.T) {
	for _, c := range []struct {
		name, below string
		inherits    bool
	}{
		{containerID, "sub", true},
		{"cri-containerd-" + containerID + ".scope", "init.scope/a/b", true},
		{"docker-" + containerID + ".scope", "(deleted)\x01\"é", true},
		{containerID, strings.Repeat("x", 255), true},
		{containerID, "a/b/c/d/e/f/g/h/i/j/k", true},
		{"t1", "sub", false},
		{containerID[:63], "sub", false},
		{containerID[:63] + "g", "sub", false},
		{"a-" + containerID[:32] + "-" + containerID[:32], "sub", false},
	} {
		t.Run(fmt.Sprintf("%.20s/%.5q", c.name, c.below), func(t *testing.T) {
			p := load(t, Options{})
			fs := counting(t, p)
			outer := cgroup(t, c.name)
			inner := filepath.Join(outer, c.below)
			mkdir(t, inner)
			a := newActor(t, inner, fs.dir)
			a.write("file", 2)
			want, other := a.id, cgroupID(t, outer)
			if c.inherits {
				want, other = other, want
			}
			wantGrown(t, writerIn(t, p, want), 2)
			if w := writerIn(t, p, other); w.Grown != 0 {
				t.Errorf("counted too: %+v", w)
			}
			a.end()
			removeCgroups(t, inner)
			if w := writerIn(t, p, want); w.Grown < 2<<20 || (w.EndedNS == 0) != c.inherits {
				t.Errorf("after the end of the inner cgroup: %+v", w)
			}
		})
	}
}

func TestWriterOfACgroupThatEnded(t *testing.T) {
	p := load(t, Options{})
	fs := counting(t, p)
	for _, name := range []string{"plain", "a \"b\" \x7f\xff é", strings.Repeat("n", 255), strings.Repeat("d/", 200) + "e"} {
		dir := cgroup(t, name)
		a := newActor(t, dir, fs.dir)
		a.write("file", 1)
		live := writerIn(t, p, a.id)
		if live.EndedNS != 0 || live.Path != "" {
			t.Errorf("before its end: %+v", live)
		}
		if err := p.ForgetWriters(live); err == nil {
			t.Error("a living writer was forgotten")
		}
		before := now(t)
		a.end()
		path := strings.TrimPrefix(dir, a.root(t))
		if err := unix.Rmdir(dir); err != nil {
			t.Fatal(err)
		}
		w := writerIn(t, p, a.id)
		wantGrown(t, w, 1)
		if w.EndedNS < before || w.EndedNS > now(t) {
			t.Errorf("ended at %d, want between %d and now", w.EndedNS, before)
		}
		// The kernel cuts what is longer.
		if want := path[:min(len(path), 383)]; w.Path != want {
			t.Errorf("path is %q, want %q", w.Path, want)
		}
		if err := p.ForgetWriters(w, w); err != nil {
			t.Fatal(err)
		}
		if w := writerIn(t, p, a.id); w.Grown != 0 {
			t.Errorf("forgotten, but %+v", w)
		}
	}
}

// A v1 hierarchy has ids of its own, which may be those of v2 cgroups.
func TestOtherHierarchiesEndNothing(t *testing.T) {
	p := load(t, Options{})
	fs := counting(t, p)
	a := newActor(t, cgroup(t, "v2"), fs.dir)
	a.write("file", 1)
	v1 := t.TempDir()
	if err := unix.Mount("cgroup", v1, "cgroup", 0, "none,name=ebb-bpf-test"); err != nil {
		t.Skipf("SKIPPED: the kernel has no cgroup v1: %v", err)
	}
	t.Cleanup(func() { unmount(t, v1) })
	for n := range 64 {
		dir := filepath.Join(v1, fmt.Sprint(n))
		mkdir(t, dir)
		if err := unix.Rmdir(dir); err != nil {
			t.Fatal(err)
		}
	}
	if w := writerIn(t, p, a.id); w.EndedNS != 0 {
		t.Errorf("ended by another hierarchy: %+v", w)
	}
}

func TestFullMapOfWritersIsCounted(t *testing.T) {
	p := load(t, Options{maxWriters: 2})
	fs := counting(t, p)
	a := newActor(t, cgroup(t, "a"), fs.dir)
	a.write("a", 1)
	b := newActor(t, cgroup(t, "b"), fs.dir)
	b.write("b", 1)
	// Write-back and the test itself may have taken the room already: then b is
	// lost; c is in any case.
	c := newActor(t, cgroup(t, "c"), fs.dir)
	c.write("c", 1)
	wantGrown(t, writerIn(t, p, a.id), 1)
	if w := writerIn(t, p, c.id); w.Grown != 0 {
		t.Fatalf("there was room: %+v", w)
	}
	if n := counters(t, p); n.WritersLost == 0 || n.WriterBytesLost < 1<<20-64<<10 { // the last change is not booked yet
		t.Errorf("counters are %+v", n)
	}
	// Room is made by what ends, and found without anybody's help.
	a.end()
	if err := unix.Rmdir(a.cg); err != nil {
		t.Fatal(err)
	}
	if err := p.ForgetWriters(writerIn(t, p, a.id)); err != nil {
		t.Fatal(err)
	}
	c.write("c2", 1)
	wantGrown(t, writerIn(t, p, c.id), 1)
}

func TestOnlyCountedFilesystemsCount(t *testing.T) {
	p := load(t, Options{})
	counted, other := counting(t, p), newExt4(t)
	a := newActor(t, cgroup(t, "a"), other.dir)
	a.write("file", 2)
	if w := writerIn(t, p, a.id); w.Grown != 0 || w.Made != 0 {
		t.Errorf("counted elsewhere: %+v", w)
	}
	if err := p.CountWriters(counted.dev, other.dev); err != nil {
		t.Fatal(err)
	}
	a.write("file2", 1)
	if err := p.CountWriters(); err != nil {
		t.Fatal(err)
	}
	a.write("file3", 1)
	wantGrown(t, writerIn(t, p, a.id), 1)
	var many []uint64
	for dev := range uint64(17) {
		many = append(many, dev+1)
	}
	if err := p.CountWriters(many...); !errors.Is(err, ErrFull) {
		t.Errorf("17 filesystems: %v", err)
	}
}

// What was counted survives the agent, and an agent with another layout.
func TestWritersAreAdopted(t *testing.T) {
	o := Options{PinDir: pinDir(t)}
	p := load(t, o)
	fs := counting(t, p)
	a := newActor(t, cgroup(t, "a"), fs.dir)
	a.write("one", 1)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	a.write("two", 1)
	p = load(t, o)
	wantGrown(t, writerIn(t, p, a.id), 2)
	gone := newActor(t, cgroup(t, "gone"), fs.dir)
	gone.write("three", 3)
	gone.end()
	if err := os.Remove(gone.cg); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	o.maxWriters = 512
	var one unix.CPUSet // one account sees all of it
	one.Set(0)
	if err := unix.SchedSetaffinity(a.cmd.Process.Pid, &one); err != nil {
		t.Fatal(err)
	}
	during := 0
	o.step = func(step string) error { // the new programs are attached, and do not know yet what counts
		if during == 0 && strings.HasPrefix(step, "pin writers_") {
			during++
			a.write("during", 1)
		}
		return nil
	}
	p = load(t, o)
	a.write("four", 1)
	if during != 1 {
		t.Fatal("nothing was written while the new programs came")
	}
	wantGrown(t, writerIn(t, p, a.id), 4)
	w := writerIn(t, p, gone.id)
	wantGrown(t, w, 3)
	if w.EndedNS == 0 || w.Path == "" {
		t.Errorf("it had ended: %+v", w)
	}
	wantSets(t, o.PinDir, len(objectsByName(t)))
}

func TestWritersLeftOut(t *testing.T) {
	o := Options{PinDir: pinDir(t)}
	p := load(t, o)
	wantSets(t, o.PinDir, len(objectsByName(t)))
	p.Close()
	o.NoWriters = true
	p, err := Load(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	wantSets(t, o.PinDir, len(objectsByName(t))-len(writersTypes))
	if _, err := p.Writers(); !errors.Is(err, ErrNotAttached) {
		t.Errorf("Writers: %v", err)
	}
	for _, s := range p.Status() {
		if left := strings.HasPrefix(s.Object, objectWriters); s.Working() == left || left && s.Reason != "switched off" {
			t.Errorf("%+v", s)
		}
	}
}

func TestWritersThatAreClosed(t *testing.T) {
	p := load(t, Options{})
	p.Close()
	if _, err := p.Writers(); !errors.Is(err, ErrNotAttached) {
		t.Errorf("Writers: %v", err)
	}
	if err := p.CountWriters(1); !errors.Is(err, ErrNotAttached) {
		t.Errorf("CountWriters: %v", err)
	}
	if err := p.ForgetWriters(); !errors.Is(err, ErrNotAttached) {
		t.Errorf("ForgetWriters: %v", err)
	}
}
