package bpf

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/tools/loopfs"
)

// TestCrossing takes space in every way there is, a little at a time, and
// compares the watermark with statfs after each step: the event comes with the very
// step that brings free space to the watermark.
func TestCrossing(t *testing.T) {
	type crossing struct {
		inodes bool
		mkfs   []string
		way    loopfs.Way
	}
	crossings := map[string]crossing{
		"clusters":              {mkfs: []string{"-O", "bigalloc", "-C", "16384"}, way: loopfs.WayNamed("buffered")},
		"inodes of directories": {inodes: true, way: loopfs.WayNamed("directories")},
		"inodes of files": {inodes: true, way: loopfs.Way{Begin: func(fs *loopfs.FS) (func() error, error) {
			return func() error { return os.WriteFile(fs.Path(), nil, 0o644) }, nil
		}}},
		"inodes of links": {inodes: true, way: loopfs.Way{Begin: func(fs *loopfs.FS) (func() error, error) {
			return func() error { return os.Symlink("x", fs.Path()) }, nil
		}}},
	}
	for _, way := range loopfs.Ways {
		if !way.Reflink {
			crossings[way.Name] = crossing{way: way}
		}
	}
	p := load(t, Options{})
	for name, c := range crossings {
		t.Run(name, func(t *testing.T) {
			fs, was := newExt4(t, c.mkfs...), counters(t, p)
			step := fs.begin(t, c.way)
			blocks, inodes := fs.free(t)
			watermark := Watermark{RaiseFree: blocks - 400, RearmFree: blocks - 300}
			if c.inodes {
				watermark = Watermark{RaiseInodes: inodes - 300, RearmInodes: inodes - 200}
			}
			setWatermark(t, p, fs, watermark)
			defer clearWatermark(t, p, fs)
			before := now(t)
			free := crossBySteps(t, p, fs, watermark, step)
			got := nextCrossing(t, p)
			if got.Dev != fs.dev || got.Inodes != c.inodes || got.BootNS < before || got.BootNS > now(t) {
				t.Errorf("crossing is %+v", got)
			}
			// A step can take more after the crossing, never less.
			if raise := max(watermark.RaiseFree, watermark.RaiseInodes); got.Free > raise || got.Free < free {
				t.Errorf("crossing with %d free; the watermark is %d and statfs reported %d", got.Free, raise, free)
			}

			// Nothing more is sent below the watermark.
			for range 20 {
				if err := step(); err != nil {
					t.Fatal(err)
				}
			}
			n := counters(t, p)
			if n.Raised-was.Raised != 1 || n.Rearmed != was.Rearmed || n.Approximate != was.Approximate {
				t.Errorf("%+v after one crossing, %+v before", n, was)
			}
		})
	}
}

// crossBySteps steps until statfs shows the watermark reached, and checks after
// each step that the watermark was disarmed if and only if it was. It returns what
// is free at last.
func crossBySteps(t *testing.T, p *Probes, fs *filesystem, watermark Watermark, step func() error) uint64 {
	t.Helper()
	for range 2000 {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		blocks, inodes := fs.free(t)
		bytesArmed, inodesArmed := armed(t, p, fs)
		if reached := watermark.RaiseFree != 0 && blocks <= watermark.RaiseFree; reached == bytesArmed {
			t.Fatalf("%d blocks free, watermark %d, armed %v", blocks, watermark.RaiseFree, bytesArmed)
		}
		if reached := watermark.RaiseInodes != 0 && inodes <= watermark.RaiseInodes; reached == inodesArmed {
			t.Fatalf("%d inodes free, watermark %d, armed %v", inodes, watermark.RaiseInodes, inodesArmed)
		}
		if !bytesArmed {
			return blocks
		}
		if !inodesArmed {
			return inodes
		}
	}
	t.Fatal("the watermark was never reached")
	return 0
}

// TestOneAllocationThroughBothWatermarks: free space goes from above rearm to below
// raise in one step, time and again, with deletes that no program sees.
func TestOneAllocationThroughBothWatermarks(t *testing.T) {
	p, fs := load(t, Options{}), newExt4(t)
	blocks, _ := fs.free(t)
	setWatermark(t, p, fs, Watermark{RaiseFree: blocks - 1000, RearmFree: blocks - 600})
	for n := range 5 {
		file := fs.take(t, 1500)
		if is, _ := armed(t, p, fs); is {
			t.Fatalf("round %d: no event", n)
		}
		nextCrossing(t, p)
		fs.take(t, 1)
		remove(t, file)
		if is, _ := armed(t, p, fs); is {
			t.Fatal("a delete armed the watermark: nothing hooks deletes")
		}
	}
	if n := counters(t, p); n.Raised != 5 || n.Rearmed != 4 {
		t.Errorf("%+v, want 5 raised and 4 armed again", n)
	}
}

func TestRearmedOnlyAboveTheSecondWatermark(t *testing.T) {
	p, fs := load(t, Options{}), newExt4(t)
	blocks, _ := fs.free(t)
	setWatermark(t, p, fs, Watermark{RaiseFree: blocks - 1000, RearmFree: blocks - 500})
	part, rest := fs.take(t, 300), fs.take(t, 800)
	remove(t, part) // between the watermarks: an event here would be one too many
	part = fs.take(t, 300)
	if n := counters(t, p); n.Raised != 1 || n.Rearmed != 0 {
		t.Fatalf("%+v between the watermarks", n)
	}
	remove(t, rest)
	remove(t, part)
	fs.take(t, 1) // above the second watermark
	if is, _ := armed(t, p, fs); !is {
		t.Fatal("not armed again above the second watermark")
	}
	fs.take(t, 1200)
	if n := counters(t, p); n.Raised != 2 || n.Rearmed != 1 {
		t.Fatalf("%+v after the second crossing", n)
	}
}

func TestWatermarkSetBelowItselfFiresAtTheNextAllocation(t *testing.T) {
	p, fs := load(t, Options{}), newExt4(t)
	blocks, _ := fs.free(t)
	watermark := Watermark{RaiseFree: blocks + 10, RearmFree: blocks + 10}
	for range 3 { // setting it is arming it
		setWatermark(t, p, fs, watermark)
		fs.take(t, 1)
		if c := nextCrossing(t, p); c.Free >= blocks {
			t.Fatalf("crossing with %d of %d free", c.Free, blocks)
		}
	}
	if err := p.ClearWatermark(fs.dev); err != nil {
		t.Fatal(err)
	}
	was := counters(t, p).Checked
	fs.take(t, 10)
	if is := counters(t, p).Checked; is != was {
		t.Fatal("a cleared watermark is still checked")
	}
}

// TestWorse: a watermark that was reached before stays silent until free space is
// at the second figure, speaks once then, and is an ordinary watermark again once
// free space was above it.
func TestWorse(t *testing.T) {
	p, fs := load(t, Options{}), newExt4(t)
	empty, _ := fs.free(t)
	fill := fs.take(t, 1000)
	watermark := Watermark{RaiseFree: empty - 500, RearmFree: empty - 400, WorseFree: empty - 1300}
	setWatermark(t, p, fs, watermark)
	for {
		fs.take(t, 1)
		free, _ := fs.free(t)
		if want, got := free <= watermark.WorseFree, counters(t, p).Raised == 1; want != got {
			t.Fatalf("%d free, watermark %+v: event %v", free, watermark, got)
		}
		if free+20 < watermark.WorseFree {
			break // twenty more allocations, and still one event
		}
	}
	if c := nextCrossing(t, p); c.Inodes || c.Free > watermark.WorseFree {
		t.Fatalf("crossing is %+v", c)
	}
	remove(t, fill)
	fs.take(t, 300) // from above the second watermark to below the first
	if n := counters(t, p); n.Raised != 2 || n.Rearmed != 1 {
		t.Fatalf("%+v after free space came back and went again", n)
	}
}

func TestSixteenWatermarks(t *testing.T) {
	p, fs := load(t, Options{}), newExt4(t)
	for dev := range uint64(MaxWatermarks - 1) {
		setWatermark(t, p, &filesystem{kind: "ext4", dev: 1<<40 + dev}, Watermark{})
	}
	blocks, _ := fs.free(t)
	setWatermark(t, p, fs, Watermark{RaiseFree: blocks - 10, RearmFree: blocks})
	if err := p.SetWatermark(1<<41, "ext4", Watermark{}); !errors.Is(err, ErrFull) {
		t.Fatalf("watermark %d: %v", MaxWatermarks+1, err)
	}
	setWatermark(t, p, fs, Watermark{RaiseFree: blocks - 20, RearmFree: blocks}) // moving one is no new one
	for range 2 {
		if err := p.ClearWatermark(1 << 40); err != nil {
			t.Fatal(err)
		}
	}
	setWatermark(t, p, &filesystem{kind: "ext4", dev: 1 << 41}, Watermark{})
	fs.take(t, 30)
	if c := nextCrossing(t, p); c.Dev != fs.dev {
		t.Fatalf("crossing is %+v", c)
	}
}

func TestWatermarksDoNotOutliveTheirOwner(t *testing.T) {
	o := Options{PinDir: pinDir(t)}
	p, fs := load(t, o), newExt4(t)
	for dev := range uint64(MaxWatermarks) {
		setWatermark(t, p, &filesystem{kind: "ext4", dev: 1<<40 + dev}, Watermark{})
	}
	p = reload(t, p, o)
	blocks, _ := fs.free(t)
	setWatermark(t, p, fs, Watermark{RaiseFree: blocks, RearmFree: blocks})
	fs.take(t, 1)
	nextCrossing(t, p)
}

func TestBadWatermarksAreRefused(t *testing.T) {
	for name, l := range map[string]Watermark{
		"free":   {RaiseFree: 2, RearmFree: 1},
		"inodes": {RaiseInodes: 2, RearmInodes: 1},
		"worse":  {WorseFree: 2, RaiseFree: 1, RearmFree: 1},
		"large":  {RaiseFree: 1, RearmFree: 1 << 63},
	} {
		if err := l.validate(); err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCautiousBound: where per-CPU shares cannot be read, events come early by
// a bounded amount, and Status reports that.
func TestCautiousBound(t *testing.T) {
	p, fs := load(t, Options{}), newExt4(t)
	if err := p.usage.on["ext4"].maps[mapCPUOffsets].Put(uint32(0), cpuOffsets{}); err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Status() {
		if strings.HasPrefix(s.Object, objectUsage) && (s.Object == objectUsage+"ext4") != (s.Reason != "") {
			t.Errorf("%s: reason %q", s.Name, s.Reason)
		}
	}
	blocks, _ := fs.free(t)
	raise := blocks - 2000
	setWatermark(t, p, fs, Watermark{RaiseFree: raise, RearmFree: blocks})
	for {
		fs.take(t, 1)
		free, _ := fs.free(t)
		is, _ := armed(t, p, fs)
		if !is {
			if early := free - raise; free > raise && early > 4096 {
				t.Fatalf("event %d blocks early", early)
			}
			break
		}
		if free <= raise {
			t.Fatalf("%d free, watermark %d: late", free, raise)
		}
	}
	if counters(t, p).Approximate == 0 {
		t.Error("no approximate reading was counted")
	}
}

// TestNeverLateWithManyWriters has writers on every CPU at once, in all ways.
func TestNeverLateWithManyWriters(t *testing.T) {
	p, fs := load(t, Options{}), newExt4(t)
	blocks, _ := fs.free(t)
	raise := blocks - 4000
	setWatermark(t, p, fs, Watermark{RaiseFree: raise, RearmFree: blocks})
	var wg sync.WaitGroup
	for n := range 8 {
		f := fs.open(t, 0)
		dir := filepath.Join(fs.dir, "d", f.Name()[len(fs.dir):])
		mkdir(t, dir)
		wg.Go(func() {
			for i := range int64(600) {
				var err error
				switch n % 3 {
				case 0:
					_, err = f.Write(make([]byte, 4096))
				case 1:
					err = unix.Fallocate(int(f.Fd()), 0, i*4096, 4096)
				case 2:
					err = os.WriteFile(filepath.Join(dir, string(rune('a'+i%26))+string(rune('A'+i/26))), []byte("x"), 0o644)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	free, _ := fs.free(t)
	if free > raise {
		t.Fatalf("test wrote too little: %d free, watermark %d", free, raise)
	}
	if is, _ := armed(t, p, fs); is {
		t.Fatalf("%d free, watermark %d, and no event", free, raise)
	}
	nextCrossing(t, p)
	if n := counters(t, p).Raised; n != 1 {
		t.Errorf("%d events", n)
	}
}
