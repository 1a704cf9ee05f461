package bpf

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// watermarkModel is what the watermark has to do, by statfs before and after each step.
type watermarkModel struct {
	Watermark
	armed  bool
	raised uint64
}

func (m *watermarkModel) step(before, after uint64) {
	if after >= before {
		return // nothing was allocated: no program ran
	}
	m.armed = m.armed || before > m.RearmFree
	if m.armed && after <= m.RaiseFree {
		m.armed = false
		m.raised++
	}
}

// TestWatermarkProperty: whatever is written and deleted, an event is raised if and
// only if free space came down to the watermark while it was armed.
func TestWatermarkProperty(t *testing.T) {
	p, fs := load(t, Options{}), newExt4(t)
	empty, _ := fs.free(t)
	rapid.Check(t, func(rt *rapid.T) {
		var files []string
		defer func() {
			for _, path := range files {
				os.Remove(path)
			}
			fs.awaitFree(t, empty-16) // but for a larger directory, the next history begins like this one
		}()
		raise := empty - uint64(rapid.IntRange(100, 2500).Draw(rt, "depth"))
		m := &watermarkModel{armed: true, Watermark: Watermark{
			RaiseFree: raise,
			RearmFree: raise + uint64(rapid.IntRange(0, 300).Draw(rt, "gap")),
		}}
		setWatermark(t, p, fs, m.Watermark)
		start := counters(t, p).Raised
		for range rapid.IntRange(5, 40).Draw(rt, "steps") {
			before, _ := fs.free(t)
			size := rapid.SampledFrom([]int{1, 2, 31, 64, 200, 700}).Draw(rt, "blocks")
			switch what := rapid.SampledFrom([]string{"write", "fallocate", "delete", "delete"}).Draw(rt, "what"); {
			case what == "delete" && len(files) > 0:
				i := rapid.IntRange(0, len(files)-1).Draw(rt, "file")
				size := allocated(t, files[i])
				remove(t, files[i])
				fs.awaitFree(t, before+size)
				files = slices.Delete(files, i, i+1)
			case what == "fallocate" && before > 2000:
				files = append(files, fs.take(t, uint64(size)))
			case before > 2000:
				path := fs.path()
				if err := os.WriteFile(path, make([]byte, size*4096), 0o644); err != nil {
					t.Fatal(err)
				}
				files = append(files, path)
			}
			after, _ := fs.free(t)
			m.step(before, after)
			if is, _ := armed(t, p, fs); is != m.armed {
				rt.Fatalf("free %d to %d, watermark %+v: armed %v, want %v", before, after, m.Watermark, is, m.armed)
			}
			if n := counters(t, p).Raised - start; n != m.raised {
				rt.Fatalf("free %d to %d, watermark %+v: %d events, want %d", before, after, m.Watermark, n, m.raised)
			}
		}
		nextCrossings(t, p, int(m.raised)) // or the ring fills
	})
}

// allocated is how many blocks of 4 KiB a file has; ext4 counts those that are
// only promised, too (ext4_file_getattr).
func allocated(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return uint64(st.Blocks) / 8
}

// awaitFree waits for space that a removal gives back. It may be late: a
// process that is just being started holds copies of all open files until its
// exec.
func (fs *filesystem) awaitFree(t *testing.T, blocks uint64) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		free, _ := fs.free(t)
		if free >= blocks {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d blocks are free, want %d back", free, blocks)
		}
	}
}

// layerModel is what a layer's stamp has to be: no earlier than the use it
// records, no later than the moment after it.
type layerModel struct {
	rootfs
	tracked  bool
	from, to uint64 // 0: not used
}

// TestStampsProperty: whatever is tracked, untracked, used and reloaded, and
// whichever slots the layers get, each stamp is that of the layer's own use.
func TestStampsProperty(t *testing.T) {
	const slots = 3
	o := Options{PinDir: pinDir(t), MaxLayers: slots}
	p := load(t, o)
	bottom := busyboxLayer(t)
	layers := make([]*layerModel, slots+2)
	for i := range layers {
		layers[i] = &layerModel{rootfs: overlay(t, t.TempDir()+"/top", bottom)}
	}
	rapid.Check(t, func(rt *rapid.T) {
		for _, l := range layers {
			*l = layerModel{rootfs: l.rootfs}
			if err := p.Untrack(l.key); err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(3, 15).Draw(rt, "steps") {
			l := rapid.SampledFrom(layers).Draw(rt, "layer")
			switch rapid.SampledFrom([]string{"use", "use", "track", "track", "untrack", "reload"}).Draw(rt, "what") {
			case "use":
				l.from = now(t)
				l.run(t, "true")
				l.to = now(t)
			case "track":
				l.track(t, p, layers, slots)
			case "untrack":
				if err := p.Untrack(l.key); err != nil {
					t.Fatal(err)
				}
				*l = layerModel{rootfs: l.rootfs}
			case "reload":
				p = reload(t, p, o)
			}
			checkStamps(t, rt, p, layers)
		}
	})
}

func (l *layerModel) track(t *testing.T, p *Probes, all []*layerModel, slots int) {
	t.Helper()
	taken := 0
	for _, other := range all {
		if other.tracked {
			taken++
		}
	}
	err := p.Track(l.key)
	if full := !l.tracked && taken == slots; full != errors.Is(err, ErrFull) || !full && err != nil {
		t.Fatalf("track with %d of %d slots taken: %v", taken, slots, err)
	}
	l.tracked = err == nil
}

func checkStamps(t *testing.T, rt *rapid.T, p *Probes, layers []*layerModel) {
	t.Helper()
	uses, err := p.LastUses()
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range layers {
		from, to := l.from, l.to
		if !l.tracked {
			from, to = 0, 0
		}
		one := lastUse(t, p, l.key)
		if one != uses[l.key] || one < from || one > to {
			rt.Fatalf("layer %d: LastUse %d, LastUses %d, want %d to %d", i, one, uses[l.key], from, to)
		}
	}
}
