package bpf

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A directory that is made anew with the number of one that was removed is
// another layer, and so are its files.
func TestHeatOfRecreatedLayer(t *testing.T) {
	p := loadAlone(t, Options{})
	fs := newExt4(t, "-b", "4096")
	dir := filepath.Join(fs.dir, "layer")
	var first Key
	for round := range 20 {
		layer(t, dir, 4)
		key := keyOfPath(t, dir)
		if first == (Key{}) {
			first = key
		}
		r := overlay(t, dir)
		r.touch(t, layerFile(1), layerFile(round%2))
		wantHeat(t, p, dir, map[int][]int{0: {1, 0}, 1: {1}}[round%2]...)
		if round > 0 && key == first {
			return // the number came again, and nothing with it
		}
		unmount(t, r.dir)
		t.Cleanup(func() { mustMount(t, r.dir) }) // overlay's own cleanup unmounts
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the filesystem gave no inode number twice")
}

func mustMount(t *testing.T, dir string) {
	if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		t.Error(err)
	}
}

func TestHeatFilesFullIsCounted(t *testing.T) {
	p := loadAlone(t, Options{heatSize: heatSize{buckets: 1}})
	r := busyLayer(t, 20)
	var all []string
	for n := range 20 {
		all = append(all, layerFile(n))
	}
	r.touch(t, all...)
	got, c := heatOf(t, p, r.top), counters(t, p)
	if got.Files != uint64(heatWords) || got.Lost < 12 || c.HeatFilesLost != got.Lost || c.HeatTouched != got.Files {
		t.Fatalf("%+v, counters %+v", got, c)
	}
	r.touch(t, all...)
	if again := heatOf(t, p, r.top); again.Files != got.Files || again.Bytes != got.Bytes {
		t.Fatalf("files that were counted count again: %+v, then %+v", got, again)
	}
	// Room comes back with the layers that go.
	if err := p.ForgetHeat(got.HeatKey); err != nil {
		t.Fatal(err)
	}
	other := busyLayer(t, 6)
	other.touch(t, layerFile(3), layerFile(4))
	wantHeat(t, p, other.top, 3, 4)
}

func TestHeatLayersFullIsCounted(t *testing.T) {
	p := loadAlone(t, Options{heatSize: heatSize{layers: 2}})
	one, two, three := busyLayer(t, 4), busyLayer(t, 4), busyLayer(t, 4)
	forgetOthers(t, p)
	for _, r := range []rootfs{one, two, three} {
		r.touch(t, layerFile(1))
	}
	wantHeat(t, p, one.top, 1)
	wantHeat(t, p, two.top, 1)
	wantHeat(t, p, three.top)
	if c := counters(t, p); c.HeatLayersLost == 0 {
		t.Errorf("counters %+v", c)
	}
	if err := p.ForgetHeat(heatOf(t, p, one.top).HeatKey); err != nil {
		t.Fatal(err)
	}
	three.touch(t, layerFile(2)) // one that was not found strange a moment ago
	wantHeat(t, p, three.top, 2)
	wantHeat(t, p, one.top)
}

// Slots go round the ring many times and bring nothing along.
func TestHeatSlotsComeBackClean(t *testing.T) {
	p := loadAlone(t, Options{heatSize: heatSize{layers: 4, buckets: 64}})
	var stack [3]rootfs
	for i := range stack {
		stack[i] = busyLayer(t, 6)
	}
	for round := range 20 {
		for i, r := range stack {
			r.touch(t, layerFile((round+i)%6), layerFile(5))
			wantFiles(t, p, r.top, (round+i)%6, 5)
			if err := p.ForgetHeat(heatOf(t, p, r.top).HeatKey); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantEmptyHeat(t, p)
}

// wantFiles is wantHeat for files that may be the same.
func wantFiles(t *testing.T, p *Probes, dir string, a, b int) {
	t.Helper()
	if a == b {
		wantHeat(t, p, dir, a)
		return
	}
	wantHeat(t, p, dir, a, b)
}

// forgetOthers drops what containers of the machine, which programs see as well,
// have entered.
func forgetOthers(t *testing.T, p *Probes) {
	t.Helper()
	all, err := p.Heat()
	if err != nil {
		t.Fatal(err)
	}
	var keys []HeatKey
	for _, l := range all {
		keys = append(keys, l.HeatKey)
	}
	if err := p.ForgetHeat(keys...); err != nil {
		t.Fatal(err)
	}
}

// wantEmptyHeat checks that nothing bears a slot and all slots are for the taking,
// once the machine's own containers are left out.
func wantEmptyHeat(t *testing.T, p *Probes) {
	t.Helper()
	forgetOthers(t, p)
	table := heatTable{p.heat.maps}
	put, taken, err := table.stocked()
	if ring := uint64(p.heat.maps[heatMapHeatStock].MaxEntries()); err != nil || put-taken != ring {
		t.Fatalf("%d slots are free, %v; want %d", put-taken, err, ring)
	}
	buckets, err := readArray[heatHeatBucket](p.heat.maps[heatMapHeatSeen], p.heat.maps[heatMapHeatSeen].MaxEntries())
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range buckets {
		if b != (heatHeatBucket{}) {
			t.Fatalf("bucket %d holds %x", i, b.Word)
		}
	}
}

// A process that died in the middle leaves slots that nobody has; Load finds
// them.
func TestHeatLeftoversAreFound(t *testing.T) {
	o := Options{PinDir: pinDir(t), heatSize: heatSize{layers: 4}}
	p := loadAlone(t, o)
	r := busyLayer(t, 4)
	r.touch(t, layerFile(1), layerFile(2))
	key := heatOf(t, p, r.top).HeatKey
	if err := p.heat.maps[heatMapHeatLayers].Delete(key.kernel()); err != nil { // as forget does first
		t.Fatal(err)
	}
	// A slot that cannot be, and one that is another layer's.
	for _, slot := range []uint32{99, 0} {
		if err := p.heat.maps[heatMapHeatLayers].Put(heatHeatKey{Fs: 1 << 40, Ino: uint64(slot)}, slot); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Heat(); err != nil {
		t.Fatal(err)
	}
	p.Close()
	p = loadAlone(t, o)
	all, err := p.Heat()
	for _, l := range all {
		if err != nil || l.HeatKey == key || l.Inode == 99 {
			t.Errorf("left is %+v, %v", l, err)
		}
	}
	wantEmptyHeat(t, p)
}

func TestHeatGoesOnWhileClosed(t *testing.T) {
	eachTier(t, func(t *testing.T, o Options) {
		p := loadAlone(t, o)
		r := busyLayer(t, 6)
		r.touch(t, layerFile(1))
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		r.touch(t, layerFile(1), layerFile(2))
		p = loadAlone(t, o)
		wantHeat(t, p, r.top, 1, 2)
		if tier, _ := p.HeatTier(); tier != o.heatTiers[0] {
			t.Errorf("adopted as %s", tier)
		}
		// A damaged set is replaced, and its records go on.
		object, err := heatObject(o.heatTiers[0], heatSize{})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(p.pins.dirOf(object), "links")); err != nil {
			t.Fatal(err)
		}
		p.Close()
		p = loadAlone(t, o)
		wantHeat(t, p, r.top, 1, 2)
		r.touch(t, layerFile(2), layerFile(3))
		wantHeat(t, p, r.top, 1, 2, 3)
		wantSets(t, o.PinDir, 1)
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if err := Unload(o.PinDir); err != nil {
			t.Fatal(err)
		}
		r.touch(t, layerFile(4))
		p = loadAlone(t, o)
		wantHeat(t, p, r.top)
	})
}

// From one tier to another the records stay; with other sizes they begin anew;
// switched off they go.
func TestHeatOfAnotherVersion(t *testing.T) {
	if why := tierMissing(t, HeatByPages); why != "" {
		t.Skip("SKIPPED: this kernel has one tier only for which others stand in: ", why)
	}
	o := Options{PinDir: pinDir(t), heatTiers: []string{HeatByPages}}
	p := loadAlone(t, o)
	r := busyLayer(t, 6)
	r.touch(t, layerFile(1))
	wantHeat(t, p, r.top, 1)

	o.heatTiers = []string{HeatByReads}
	p.Close()
	p = loadAlone(t, o)
	r.touch(t, layerFile(1), layerFile(2))
	wantHeat(t, p, r.top, 1, 2)
	wantSets(t, o.PinDir, 1)

	o.heatSize.layers = 64
	p.Close()
	p = loadAlone(t, o)
	r.touch(t, layerFile(2))
	wantHeat(t, p, r.top, 2)
	wantSets(t, o.PinDir, 1)

	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	o.Heat, o.only = HeatOff, objectHeat
	p, err := Load(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if tier, why := p.HeatTier(); tier != HeatNone || why != nil {
		t.Errorf("switched off it is %s, %v", tier, why)
	}
	if _, err := p.Heat(); !errors.Is(err, ErrNotAttached) {
		t.Errorf("switched off: %v", err)
	}
	wantSets(t, o.PinDir, 0)
}

// A tier that is pinned gives way to a better one, with all that is known, and
// stays where a better one is refused.
func TestBetterHeatTierTakesOver(t *testing.T) {
	if why := tierMissing(t, HeatByPages); why != "" {
		t.Skip("SKIPPED: this kernel has one tier only: ", why)
	}
	o := Options{PinDir: pinDir(t), heatTiers: []string{HeatByPages}}
	p := loadAlone(t, o)
	r := busyLayer(t, 6)
	r.touch(t, layerFile(1))
	p.Close()
	refused := slices.DeleteFunc([]string{HeatByFentry, HeatByKprobe}, func(tier string) bool { return tierMissing(t, tier) == "" })
	o.heatTiers = append(refused, HeatByPages)
	p = loadAlone(t, o)
	if tier, err := p.HeatTier(); tier != HeatByPages || err != nil || !p.heat.adopted {
		t.Errorf("where %v are refused the tier is %s, %v, taken over: %v", refused, tier, err, p.heat.adopted)
	}
	r.touch(t, layerFile(2))
	wantHeat(t, p, r.top, 1, 2)
	p.Close()

	o.heatTiers = []string{HeatByReads, HeatByPages}
	p = loadAlone(t, o)
	if tier, err := p.HeatTier(); tier != HeatByReads || err != nil {
		t.Errorf("the tier is %s, %v", tier, err)
	}
	wantSets(t, o.PinDir, 1)
	r.touch(t, layerFile(2), layerFile(3))
	wantHeat(t, p, r.top, 1, 2, 3)
}

// Where a plain read is all that happens, only some tiers see it. (On tmpfs, which
// no runtime unpacks images on, reads go another way.)
func TestHeatOfPlainReads(t *testing.T) {
	eachTier(t, func(t *testing.T, o Options) {
		p := loadAlone(t, o)
		r := overlay(t, layer(t, newExt4(t, "-b", "4096").dir+"/layer", 4))
		r.inside(t, func() error {
			f, err := os.Open(layerFile(2))
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.Copy(io.Discard, f)
			return err
		})
		if o.heatTiers[0] == HeatByPages {
			wantHeat(t, p, r.top)
			return
		}
		wantHeat(t, p, r.top, 2)
	})
}

// A path that is too long to be followed is a loss, which is counted.
func TestHeatOfDeepFiles(t *testing.T) {
	eachTier(t, func(t *testing.T, o Options) {
		p := loadAlone(t, o)
		r := busyLayer(t, 2)
		deep := strings.Repeat("d/", 100)
		mkdir(t, filepath.Join(r.top, deep))
		if err := os.WriteFile(filepath.Join(r.top, deep, "f"), []byte{0}, 0o644); err != nil {
			t.Fatal(err)
		}
		r.touch(t, deep+"f", layerFile(1))
		l, c := heatOf(t, p, r.top), counters(t, p)
		if l.Files+c.HeatUnreadable != 2 {
			t.Errorf("%+v, counters %+v", l, c)
		}
	})
}

// Many at once count each file once. On real-time kernels a program of fentry can be
// preempted, and a run on the same CPU meanwhile is left out, and counted as missed: such
// a file counts from the next open.
func TestHeatOfManyAtOnce(t *testing.T) {
	eachTier(t, func(t *testing.T, o Options) {
		p := loadAlone(t, o)
		const files = 300
		r := busyLayer(t, files)
		var numbers []int
		var paths []string
		for n := range files {
			numbers, paths = append(numbers, n), append(paths, layerFile(n))
		}
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				if err := inside(r.dir, func() error { return touch(paths...) }); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if realtime(t) && counters(t, p).Missed[objectHeat] > 0 {
			r.touch(t, paths...)
			wantHeat(t, p, r.top, numbers...)
			return
		}
		wantHeat(t, p, r.top, numbers...)
		wantNothingLost(t, p)
	})
}

// realtime reports whether the kernel was built with PREEMPT_RT.
func realtime(t *testing.T) bool {
	t.Helper()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	return strings.Contains(unix.ByteSliceToString(name.Version[:]), "PREEMPT_RT")
}
