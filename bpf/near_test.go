package bpf

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// fromAfar skips where every block is watched anyway.
func fromAfar(t *testing.T, p *Probes) {
	t.Helper()
	if p.usage.on["ext4"].closely == nil {
		t.Skip("SKIPPED: ext4 of this kernel has no large folios, so usage_reserve is always attached")
	}
}

// closely is whether the near program is attached.
func closely(t *testing.T, p *Probes) bool {
	t.Helper()
	for _, s := range p.Status() {
		if s.Name == usageExt4ProgUsageReserve {
			return s.Attached
		}
	}
	t.Fatal("no such program")
	return false
}

// newFarExt4 has room for what is far.
func newFarExt4(t *testing.T) *filesystem {
	return newFilesystem(t, "ext4", 1<<30, "-F", "-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0")
}

// watcher does what the agent does: it reads the figure at each event, and sets
// the watermark again.
type watcher struct {
	watermark Watermark
	near      atomic.Uint64 // events that only reported the watermark as near
	reached   chan struct{} // closed when an event has shown the watermark reached
}

func watch(t *testing.T, p *Probes, fs *filesystem, watermark Watermark) *watcher {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	events, done := make(chan Crossing), make(chan error, 2)
	w := &watcher{watermark: watermark, reached: make(chan struct{})}
	go func() { done <- p.Crossings(ctx, events) }()
	go func() { done <- w.run(ctx, t, p, fs, events) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
	w.watermark.Free, _ = fs.free(t)
	setWatermark(t, p, fs, w.watermark)
	return w
}

func (w *watcher) run(ctx context.Context, t *testing.T, p *Probes, fs *filesystem, events <-chan Crossing) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-events:
			if c.Dev != fs.dev || c.Inodes {
				t.Errorf("crossing is %+v", c)
			}
			watermark := w.watermark
			watermark.Free, _ = fs.free(t)
			if watermark.Free <= watermark.RaiseFree {
				close(w.reached)
				return nil
			}
			if !c.Near {
				t.Errorf("event %d blocks early", watermark.Free-watermark.RaiseFree)
			}
			w.near.Add(1)
			if err := p.SetWatermark(fs.dev, fs.kind, watermark); err != nil {
				return err
			}
			// What was taken before the watermark was set again.
			if free, _ := fs.free(t); free <= watermark.RaiseFree {
				close(w.reached)
				return nil
			}
		}
	}
}

// looks is how often the programs looked.
func looks(t *testing.T, p *Probes) uint64 { return counters(t, p).Checked }

// TestFarWritersAreLeftAlone: megabytes written far from the watermark cost a look for
// each folio, not for each block.
func TestFarWritersAreLeftAlone(t *testing.T) {
	p, fs := load(t, Options{}), newFarExt4(t)
	fromAfar(t, p)
	free, _ := fs.free(t)
	setWatermark(t, p, fs, Watermark{RaiseFree: 1000, RearmFree: 1000, Free: free})
	f, was := fs.open(t, 0), looks(t, p)
	for range 64 {
		if _, err := f.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if n := looks(t, p) - was; n == 0 || n > 64*256/4 {
		t.Errorf("%d looks at %d blocks", n, 64*256)
	}
	if closely(t, p) || counters(t, p).Neared != 0 {
		t.Error("watched closely, far from the watermark")
	}
	setWatermark(t, p, fs, Watermark{RaiseFree: 1000, RearmFree: 1000})
	if !closely(t, p) {
		t.Error("not watched closely, though the watermark has no Free")
	}
	was = looks(t, p)
	if _, err := f.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if n := looks(t, p) - was; n < 256 {
		t.Errorf("%d looks at 256 blocks", n)
	}
	setWatermark(t, p, fs, Watermark{RaiseFree: 1000, RearmFree: 1000, Free: free})
	if closely(t, p) {
		t.Error("watched closely after it was far again")
	}
}

// TestNeverLateFromAfar: from far above the watermark down to it, in ways that dirty
// pages, that dirty none, and that take blocks in folios that are dirty already.
func TestNeverLateFromAfar(t *testing.T) {
	for name, start := range map[string]taking{
		"buffered":          writes(4096, 0),
		"large writes":      writes(1<<20, 0),
		"large direct":      writes(1<<20, unix.O_DIRECT),
		"mapped":            mapped(480 << 20),
		"holes":             holes(func(f *os.File, at int64) error { _, err := f.WriteAt([]byte{1}, at); return err }),
		"fallocate":         chunks(300),
		"holes and writers": mixed,
	} {
		t.Run(name, func(t *testing.T) {
			p, fs := load(t, Options{nearBlocks: 64}), newFarExt4(t)
			fromAfar(t, p)
			step := start(t, fs)
			free, _ := fs.free(t)
			w := watch(t, p, fs, Watermark{RaiseFree: free - 93000, RearmFree: free - 93000})
			for {
				if err := step(); err != nil {
					t.Fatal(err)
				}
				free, _ := fs.free(t)
				if free > w.watermark.RaiseFree {
					continue
				}
				select {
				case <-w.reached:
				case <-time.After(30 * time.Second): // nothing else happens meanwhile
					t.Fatalf("%d free, watermark %d, and no event; counters %+v", free, w.watermark.RaiseFree, counters(t, p))
				}
				break
			}
			if n := w.near.Load(); n > 3 {
				t.Errorf("%d events before the watermark was reached", n)
			}
		})
	}
}

// taking is a way of taking space, a little with each step.
type taking func(t *testing.T, fs *filesystem) (step func() error)

// writes appends so many bytes at a time.
func writes(size, flags int) taking {
	return func(t *testing.T, fs *filesystem) func() error {
		f, data := fs.open(t, flags), pages(t, size/4096)
		return func() error {
			_, err := f.Write(data)
			return err
		}
	}
}

func chunks(blocks uint64) taking {
	return func(t *testing.T, fs *filesystem) func() error {
		return func() error {
			fs.take(t, blocks)
			return nil
		}
	}
}

// mapped dirties a page at a time through a mapping.
func mapped(size int) taking {
	return func(t *testing.T, fs *filesystem) func() error {
		f, at := fs.open(t, 0), 0
		if err := f.Truncate(int64(size)); err != nil {
			t.Fatal(err)
		}
		m, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Munmap(m) })
		return func() error {
			m[at] = 1
			at += 4096
			return nil
		}
	}
}

// holes has a sparse file in the page cache, in folios as large as reading ahead
// makes them, and writes a byte into each megabyte, then a byte into the next
// block of each, and so on. Most of these blocks dirty no folio. It does not dawdle:
// write-back would clean the folios.
func holes(write func(*os.File, int64) error) taking {
	return func(t *testing.T, fs *filesystem) func() error {
		const size, stride = 460 << 20, 1 << 20
		const ramp = 32 << 20 // reading ahead begins with small ones
		f := fs.open(t, 0)
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		for at, buf := int64(0), make([]byte, stride); at < size; at += stride {
			if _, err := f.ReadAt(buf, at); err != nil {
				t.Fatal(err)
			}
		}
		round := int64(-1)
		return func() error {
			round++
			for at := ramp + round*4096; at < size; at += stride {
				if err := write(f, at); err != nil {
					return err
				}
			}
			return nil
		}
	}
}

// mixed has holes filled while another file grows.
func mixed(t *testing.T, fs *filesystem) func() error {
	fill := holes(func(f *os.File, at int64) error { _, err := f.WriteAt([]byte{1}, at); return err })(t, fs)
	grow, n := writes(1<<20, 0)(t, fs), 0
	return func() error {
		if n++; n%40 == 0 {
			return grow()
		}
		return fill()
	}
}

// TestFarSurvivesItsOwner: what was near is far again for the next process until
// it has set a watermark of its own, and nothing stays attached without one.
func TestFarSurvivesItsOwner(t *testing.T) {
	o := Options{PinDir: pinDir(t)}
	p, fs := load(t, o), newFarExt4(t)
	fromAfar(t, p)
	free, _ := fs.free(t)
	setWatermark(t, p, fs, Watermark{RaiseFree: free - 1000, RearmFree: free - 1000, Free: free})
	if !closely(t, p) {
		t.Fatal("not watched closely near the watermark")
	}
	p = reload(t, p, o)
	if closely(t, p) {
		t.Fatal("watched closely without a watermark")
	}
	for _, s := range p.Status() {
		if s.Object == objectUsage+"ext4" && s.Attached && !s.Adopted {
			t.Errorf("%s was not adopted", s.Name)
		}
	}
	setWatermark(t, p, fs, Watermark{RaiseFree: free - 1000, RearmFree: free - 1000, Free: free})
	fs.take(t, 900)
	f := fs.open(t, 0)
	if _, err := f.Write(make([]byte, 200*4096)); err != nil {
		t.Fatal(err)
	}
	if c := nextCrossing(t, p); c.Near || c.Free > free-1000 {
		t.Errorf("crossing is %+v", c)
	}
	clearWatermark(t, p, fs)
	if closely(t, p) {
		t.Error("watched closely after the watermark was cleared")
	}
	dir := (&pins{dir: o.PinDir}).dirOf(mustUsage(t))
	if err := os.Remove(filepath.Join(dir, "programs", usageExt4ProgUsageReserve)); err != nil {
		t.Fatal(err)
	}
	p = reload(t, p, o) // damaged: replaced
	setWatermark(t, p, fs, Watermark{RaiseFree: free - 1000, RearmFree: free - 1000, Free: free})
	if !closely(t, p) {
		t.Error("not watched closely after the pins were replaced")
	}
}

func mustUsage(t *testing.T) *object {
	t.Helper()
	o, err := usageObject("ext4", nearBlocks)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestAnyBandLeavesNear: a filesystem that reached its watermark and was brought back to the low threshold is far
// again, however far away it came near, if the band between the thresholds is wider than what always counts as
// near.
func TestAnyBandLeavesNear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.Uint64Range(1, 1<<20).Draw(t, "room")
		band := room + rapid.Uint64Range(0, 1<<24).Draw(t, "band beyond it")
		entered := rapid.Uint64Range(0, 1<<26).Draw(t, "headroom when it came near")
		l := Watermark{RaiseFree: 1 << 20, Reserved: 1000}
		w := &closeWatch{room: room, near: map[uint64]uint64{1: entered}}
		at := func(headroom uint64, reached bool) (near bool) {
			l.Free = l.RaiseFree + l.Reserved + headroom
			w.seen(1, l, reached)
			return w.decide(1, l)
		}
		if !at(entered, false) {
			t.Error("far again at once")
		}
		if more := entered + rapid.Uint64Range(0, entered).Draw(t, "more"); more < 2*entered && !at(more, false) {
			t.Errorf("far again at %d, near at %d", more, entered)
		}
		if at(band, true) {
			t.Errorf("near at %d after the watermark was reached, with room for %d", band, room)
		}
	})
}
