package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func sample(n int) Records {
	r := New()
	r.Meta = Meta{
		Anchor:   Anchor{BootID: "boot-1", Boot: time.Hour, Wall: t0},
		Saved:    t0.Add(time.Minute),
		Removals: []time.Time{t0},
		Reclaim: Reclaim{
			Hold: &image.Hold{Since: t0, Bytes: true, AvailableBytes: 7, Space: []image.Space{{By: "in_use", Bytes: 9}}},
		},
		Content: Reclaim{Hold: &image.Hold{Since: t0, Inodes: true, InodesAvailable: 3}, ReclaimingBytes: true},
	}
	r.Meta.Observation = &Observation{Since: t0, Ebb: Tally{Images: 3, Bytes: 7, Above: time.Minute}, Removals: []time.Time{t0},
		Runs: map[string]Reclaim{"/": {Hold: &image.Hold{Since: t0, Bytes: true}, ReclaimingBytes: true}}}
	r.Meta.PodsAnswered, r.Wanted = t0.Add(time.Second), map[string][]string{"docker.io/library/a:1": {"pod default/a"}}
	r.Facts = &inventory.Facts{Targets: map[string]inventory.Target{}, Sizes: map[inventory.SnapshotID]inventory.SizeFact{}}
	for i := range n {
		r.Facts.Targets[fmt.Sprintf("sha256:%064x", i)] = inventory.Target{ImageID: fmt.Sprintf("sha256:%064d", i), ChainID: "c"}
		r.Facts.Sizes[inventory.SnapshotID{Namespace: "k8s.io", Snapshotter: "overlayfs", Key: fmt.Sprint(i)}] = inventory.SizeFact{Created: t0, Bytes: 7, Inodes: uint64(i)}
		r.Removed[fmt.Sprint(i)] = Removed{At: t0, Reason: "threshold", Bytes: 7, References: []string{"a"}, LastUsed: t0, Again: i}
		r.Observed[fmt.Sprint(i)] = Observed{Would: t0, Back: t0.Add(time.Hour), Others: t0.Add(time.Minute)}
		r.Images[fmt.Sprintf("sha256:%064d", i)] = Image{Observed: t0, Arrived: t0.Add(-time.Hour), LastUsed: t0.Add(time.Duration(i) * time.Second)}
		r.Containers[fmt.Sprintf("k8s.io/%d", i)] = Container{Image: fmt.Sprintf("sha256:%064d", i)}
		r.Containers[fmt.Sprintf("k8s.io/dead-%d", i)] = Container{Image: "sha256:dead", Ended: t0}
		l := inventory.Layer{Namespace: "k8s.io", Snapshotter: "overlayfs", ChainID: fmt.Sprintf("sha256:%064d", i)}
		r.Layers[l] = Layer{LayerRoot: inventory.LayerRoot{Path: fmt.Sprintf("/x/%d/fs", i), Dev: 8 << 20, Ino: uint64(i), Created: t0}, Birth: 5}
	}
	return r
}

func open(t *testing.T, dir string) (*Store, Records, string) {
	t.Helper()
	s, r, aside, err := Open(dir, t0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, r, aside
}

func TestSavedStateComesBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "on", "demand")
	s, r, aside := open(t, dir)
	if len(r.Images) != 0 || aside != "" {
		t.Fatalf("a new directory holds %v, %q", r, aside)
	}
	want := sample(50)
	if err := s.Save(want.Clone()); err != nil {
		t.Fatal(err)
	}
	// Images come and go; what is gone must not come back.
	delete(want.Images, fmt.Sprintf("sha256:%064d", 3))
	delete(want.Containers, "k8s.io/3")
	want.Containers["k8s.io/4"] = Container{Image: want.Containers["k8s.io/4"].Image, Ended: t0}
	want.Images["sha256:new"] = Image{Observed: t0}
	want.Meta.Hold = nil
	delete(want.Removed, "1")
	delete(want.Observed, "1")
	want.Facts = &inventory.Facts{Targets: map[string]inventory.Target{"sha256:other": {ImageID: "sha256:new"}},
		Sizes: map[inventory.SnapshotID]inventory.SizeFact{{Namespace: "a\x00b", Key: "c"}: {Created: t0, Bytes: 1}}}
	if err := s.Save(want); err != nil {
		t.Fatal(err)
	}
	facts := want.Facts
	if want.Facts = nil; s.Save(want) != nil { // what was learnt is still so
		t.Fatal("it cannot be saved once more")
	}
	s.Close()
	want.Facts = facts
	_, got, aside := open(t, dir)
	if diff := cmp.Diff(want, got); diff != "" || aside != "" {
		t.Errorf("moved aside %q, (-want +got):\n%s", aside, diff)
	}
}

func TestUnchangedStateIsNotWritten(t *testing.T) {
	s, _, _ := open(t, t.TempDir())
	if err := s.Save(sample(5)); err != nil {
		t.Fatal(err)
	}
	before, again := s.db.Stats(), sample(5)
	again.Facts = nil
	if err := s.Save(again); err != nil {
		t.Fatal(err)
	}
	after := s.db.Stats()
	if d := after.Sub(&before); d.TxStats.GetWrite() != 0 {
		t.Errorf("%d writes for no change", d.TxStats.GetWrite())
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	_, _, _, err := Open(dir, t0)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), filepath.Join(dir, File)) {
		t.Errorf("got %v", err)
	}
}

// A damaged file, however it is damaged, is moved aside or read whole; it never
// takes the process down and never loses what a person could still look at.
func TestDamagedFile(t *testing.T) {
	dir := t.TempDir()
	s, _, _ := open(t, dir)
	want := sample(400)
	if err := s.Save(want); err != nil {
		t.Fatal(err)
	}
	s.Close()
	good, err := os.ReadFile(filepath.Join(dir, File))
	if err != nil {
		t.Fatal(err)
	}
	damage := map[string]func([]byte) []byte{
		"empty":          func([]byte) []byte { return nil },
		"one byte":       func(b []byte) []byte { return b[:1] },
		"half a page":    func(b []byte) []byte { return b[:2048] },
		"two pages":      func(b []byte) []byte { return b[:8192] },
		"half":           func(b []byte) []byte { return b[:len(b)/2] },
		"half, unevenly": func(b []byte) []byte { return b[:len(b)/2+17] },
		"text":           func([]byte) []byte { return []byte(strings.Repeat("not a database\n", 5000)) },
		"zero pages": func(b []byte) []byte {
			for i := 8192; i < len(b); i++ {
				b[i] = 0
			}
			return b
		},
		"noise": func(b []byte) []byte {
			for i := 8192; i < len(b); i++ {
				b[i] ^= byte(i * 7)
			}
			return b
		},
	}
	for name, hurt := range damage {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			bad := hurt(append([]byte(nil), good...))
			if err := os.WriteFile(filepath.Join(dir, File), bad, 0o600); err != nil {
				t.Fatal(err)
			}
			s, r, aside := open(t, dir)
			if aside == "" || len(r.Images) != 0 {
				t.Fatalf("moved aside %q, %d images read", aside, len(r.Images))
			}
			kept, err := os.ReadFile(aside)
			if err != nil || string(kept) != string(bad) {
				t.Errorf("the damaged file was not kept as it was: %v", err)
			}
			if err := s.Save(want); err != nil {
				t.Errorf("the fresh file cannot be written: %v", err)
			}
		})
	}
}

// Any single byte changed, anywhere: no crash, no hang, and what is read is
// never more than was written.
func TestFlippedBytes(t *testing.T) {
	dir := t.TempDir()
	s, _, _ := open(t, dir)
	if err := s.Save(sample(30)); err != nil {
		t.Fatal(err)
	}
	s.Close()
	path := filepath.Join(dir, File)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		bad := append([]byte(nil), good...)
		at := rapid.IntRange(0, len(bad)-1).Draw(rt, "at")
		bad[at] ^= byte(rapid.IntRange(1, 255).Draw(rt, "flip"))
		dir, err := os.MkdirTemp("", "ebb-state-")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if err := os.WriteFile(filepath.Join(dir, File), bad, 0o600); err != nil {
			rt.Fatal(err)
		}
		s, r, _, err := Open(dir, t0)
		if err != nil {
			rt.Fatalf("byte %d: %v", at, err)
		}
		defer s.Close()
		if len(r.Images) > 30 {
			rt.Errorf("byte %d: %d images out of 30", at, len(r.Images))
		}
		if err := s.Save(sample(31)); err != nil {
			rt.Errorf("byte %d: %v", at, err)
		}
	})
}

// A key whose recorded position is far outside of the file: bbolt's check meets it in a
// goroutine of its own, where a fault would end the process.
func TestKeysOutsideOfTheFile(t *testing.T) {
	dir := t.TempDir()
	s, _, _ := open(t, dir)
	if err := s.Save(sample(200)); err != nil {
		t.Fatal(err)
	}
	s.Close()
	good, err := os.ReadFile(filepath.Join(dir, File))
	if err != nil {
		t.Fatal(err)
	}
	const page, header, size = 4096, 16, 16
	hurt := 0
	for at := 0; at < len(good); at += page {
		flags, count := good[at+8], int(good[at+10])|int(good[at+11])<<8
		if flags != 1 && flags != 2 { // branch, leaf
			continue
		}
		for n := 0; n < count; n += 1 + count/3 {
			bad := append([]byte(nil), good...)
			// The highest byte of pos: the key is 512 MiB further on.
			element := at + header + n*size
			if flags == 2 {
				element += 4 // behind the flags of a leaf's
			}
			bad[element+3] ^= 0x20
			path := filepath.Join(t.TempDir(), File)
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			s, r, _, err := Open(filepath.Dir(path), t0)
			if err != nil || len(r.Images) > 200 {
				t.Errorf("page %d, element %d: %d images, %v", at/page, n, len(r.Images), err)
			}
			s.Close()
			hurt++
		}
	}
	if hurt < 10 {
		t.Errorf("only %d keys were hurt: the format of the file has changed", hurt)
	}
}

func TestReadOnlyDirectoryKeepsWhatItHolds(t *testing.T) {
	dir := t.TempDir()
	s, _, _ := open(t, dir)
	want := sample(3)
	if err := s.Save(want); err != nil {
		t.Fatal(err)
	}
	s.Close()
	readOnly(t, dir)
	_, got, aside, err := Open(dir, t0)
	if !errors.Is(err, syscall.EROFS) || aside != "" {
		t.Fatalf("error %v, moved aside %q", err, aside)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func readOnly(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts a read-only view of a directory")
	}
	for _, flags := range []uintptr{unix.MS_BIND, unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY} {
		if err := unix.Mount(dir, dir, "", flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for unix.Unmount(dir, 0) == nil { // once for each mount on it
		}
	})
}

// A full disk fails a save with a clear error, loses nothing, and is got over.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts a small tmpfs")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	s, _, _ := open(t, dir)
	want := sample(10)
	if err := s.Save(want); err != nil {
		t.Fatal(err)
	}
	fill := filepath.Join(dir, "fill")
	if out, err := exec.Command("dd", "if=/dev/zero", "of="+fill, "bs=4k").CombinedOutput(); err == nil {
		t.Fatalf("the disk is not full: %s", out)
	}
	if err := s.Save(sample(3000)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v", err)
	}
	s.Close()
	s, got, aside := open(t, dir)
	if diff := cmp.Diff(want, got); diff != "" || aside != "" {
		t.Fatalf("after a failed save: moved aside %q, (-want +got):\n%s", aside, diff)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(sample(300)); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// TestHelperSaves is not a test: it is the process that TestKilledWhileSaving
// kills.
func TestHelperSaves(t *testing.T) {
	dir := os.Getenv("EBB_TEST_STATE_DIR")
	if dir == "" {
		return
	}
	s, _, _, err := Open(dir, t0)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; ; n++ {
		r := sample(n % 200)
		r.Meta.Anchor.BootID = fmt.Sprint(len(r.Images))
		if err := s.Save(r); err != nil {
			t.Fatal(err)
		}
	}
}

// Killed at any moment, the file is a complete earlier state.
func TestKilledWhileSaving(t *testing.T) {
	dir := t.TempDir()
	for round := range 10 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestHelperSaves$")
		cmd.Env = append(os.Environ(), "EBB_TEST_STATE_DIR="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		awaitGrowth(t, filepath.Join(dir, File), round)
		time.Sleep(time.Duration(round) * 7 * time.Millisecond) // a different moment each round, not a wait for anything
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		s, r, aside := open(t, dir)
		if aside != "" {
			t.Fatalf("round %d: moved aside %s", round, aside)
		}
		if want := fmt.Sprint(len(r.Images)); r.Meta.Anchor.BootID != want && r.Meta.Anchor.BootID != "" {
			t.Errorf("round %d: a mixture of two states: %s images by the anchor, %s by count", round, r.Meta.Anchor.BootID, want)
		}
		s.Close()
	}
}

// awaitGrowth waits until the helper writes: the file's time of change moves.
func awaitGrowth(t *testing.T, path string, round int) {
	t.Helper()
	var first time.Time
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if first.IsZero() {
			first = info.ModTime()
		}
		if info.ModTime().After(first) {
			return
		}
	}
	t.Fatalf("round %d: the helper writes nothing", round)
}

func TestShiftKeepsAges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := sample(5)
		by := time.Duration(rapid.Int64Range(-1e18, 1e18).Draw(rt, "by"))
		before := r.Clone()
		r.Shift(by)
		for id, i := range before.Images {
			if got := r.Meta.Saved.Sub(r.Images[id].LastUsed); got != before.Meta.Saved.Sub(i.LastUsed) {
				rt.Errorf("age of %s is %s", id, got)
			}
		}
		for is, was := range map[*image.Hold]*image.Hold{r.Meta.Hold: before.Meta.Hold, r.Meta.Content.Hold: before.Meta.Content.Hold} {
			if is.Since.Sub(was.Since) != by || was == is {
				rt.Error("a hold was not moved, or not copied")
			}
		}
	})
	r := New()
	r.Images["never used"] = Image{Observed: t0}
	r.Shift(time.Hour)
	if !r.Images["never used"].LastUsed.IsZero() {
		t.Error("an unknown time became known")
	}
}

// What an older agent wrote about its one filesystem is read as the images'.
func TestHoldOfAnOlderAgent(t *testing.T) {
	var m Meta
	old := `{"hold":{"Bytes":true},"reclaimingBytes":true,"saved":"2026-01-01T00:00:00Z"}`
	if err := json.Unmarshal([]byte(old), &m); err != nil || m.Hold == nil || !m.Hold.Bytes || !m.ReclaimingBytes || m.Content != (Reclaim{}) {
		t.Errorf("read as %+v, %v", m, err)
	}
}
