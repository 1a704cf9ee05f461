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
// compares the line with statfs after each step: the event comes with the very
// step that brings free space to the line.
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
			line := Line{RaiseFree: blocks - 400, RearmFree: blocks - 300}
			if c.inodes {
				line = Line{RaiseInodes: inodes - 300, RearmInodes: inodes - 200}
			}
			setLine(t, p, fs, line)
			defer clearLine(t, p, fs)
			before := now(t)
			free := crossBySteps(t, p, fs, line, step)
			got := nextCrossing(t, p)
			if got.Dev != fs.dev || got.Inodes != c.inodes || got.BootNS < before || got.BootNS > now(t) {
				t.Errorf("crossing is %+v", got)
			}
			// A step can take more after the crossing, never less.
			if raise := max(line.RaiseFree, line.RaiseInodes); got.Free > raise || got.Free < free {
				t.Errorf("crossing with %d free; the line is %d and statfs said %d", got.Free, raise, free)
			}

			// Nothing more is sent below the line.
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

// crossBySteps steps until statfs shows the line reached, and checks after
// each step that the line was disarmed if and only if it was. It returns what
// is free at last.
func crossBySteps(t *testing.T, p *Probes, fs *filesystem, line Line, step func() error) uint64 {
	t.Helper()
	for range 2000 {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		blocks, inodes := fs.free(t)
		bytesArmed, inodesArmed := armed(t, p, fs)
		if reached := line.RaiseFree != 0 && blocks <= line.RaiseFree; reached == bytesArmed {
			t.Fatalf("%d blocks free, line %d, armed %v", blocks, line.RaiseFree, bytesArmed)
		}
		if reached := line.RaiseInodes != 0 && inodes <= line.RaiseInodes; reached == inodesArmed {
			t.Fatalf("%d inodes free, line %d, armed %v", inodes, line.RaiseInodes, inodesArmed)
		}
		if !bytesArmed {
			return blocks
		}
		if !inodesArmed {
			return inodes
		}
	}
	t.Fatal("the line was never reached")
	return 0
}

// TestOneAllocationThroughBothLines: free space goes from above rearm to below
// raise in one step, time and again, with deletes that no program sees.
func TestOneAllocationThroughBothLines(t *testing.T) {
	p, fs := load(t, Options{}), newExt4(t)
	blocks, _ := fs.free(t)
	setLine(t, p, fs, Line{RaiseFree: blocks - 1000, RearmFree: blocks - 600})
	for n := range 5 {
		file := fs.take(t, 1500)
		if is, _ := armed(t, p, fs); is {
			t.Fatalf("round %d: no event", n)
		}
		nextCrossing(t, p)
		fs.take(t, 1)
		remove(t, file)
		if is, _ := armed(t, p, fs); is {
			t.Fatal("a delete armed the line: nothing hooks deletes")
		}
	}
	if n := counters(t, p); n.Raised != 5 || n.Rearmed != 4 {
		t.Errorf("%+v, want 5 raised and 4 armed again", n)
	}
}

func TestRearmedOnlyAboveTheSecondLine(t *testing.T) {
	p, fs := load(t, Options{}), newExt4(t)
	blocks, _ := fs.free(t)
	setLine(t, p, fs, Line{RaiseFree: blocks - 1000, RearmFree: blocks - 500})
	part, rest := fs.take(t, 300), fs.take(t, 800)
	remove(t, part) // between the lines: an event here would be one too many
	part = fs.take(t, 300)
	if n := counters(t, p); n.Raised != 1 || n.Rearmed != 0 {
		t.Fatalf("%+v between the lines", n)
	}
	remove(t, rest)
	remove(t, part)
	fs.take(t, 1) // above the second line
	if is, _ := armed(t, p, fs); !is {
		t.Fatal("not armed again above the second line")
	}
	fs.take(t, 1200)
	if n := counters(t, p); n.Raised != 2 || n.Rearmed != 1 {
		t.Fatalf("%+v after the second crossing", n)
	}
}

func TestLineSetBelowItselfFiresAtTheNextAllocation(t *testing.T) {
	p, fs := load(t, Options{}), newExt4(t)
	blocks, _ := fs.free(t)
	line := Line{RaiseFree: blocks + 10, RearmFree: blocks + 10}
	for range 3 { // setting it is arming it
		setLine(t, p, fs, line)
		fs.take(t, 1)
		if c := nextCrossing(t, p); c.Free >= blocks {
			t.Fatalf("crossing with %d of %d free", c.Free, blocks)
		}
	}
	if err := p.ClearLine(fs.dev); err != nil {
		t.Fatal(err)
	}
	was := counters(t, p).Checked
	fs.take(t, 10)
	if is := counters(t, p).Checked; is != was {
		t.Fatal("a cleared line is still checked")
	}
}

// TestWorse: a line that was reached before stays silent until free space is
// at the second figure, speaks once then, and is an ordinary line again once
// free space was above it.
func TestWorse(t *testing.T) {
	p, fs := load(t, Options{}), newExt4(t)
	empty, _ := fs.free(t)
	fill := fs.take(t, 1000)
	line := Line{RaiseFree: empty - 500, RearmFree: empty - 400, WorseFree: empty - 1300}
	setLine(t, p, fs, line)
	for {
		fs.take(t, 1)
		free, _ := fs.free(t)
		if want, got := free <= line.WorseFree, counters(t, p).Raised == 1; want != got {
			t.Fatalf("%d free, line %+v: event %v", free, line, got)
		}
		if free+20 < line.WorseFree {
			break // twenty more allocations, and still one event
		}
	}
	if c := nextCrossing(t, p); c.Inodes || c.Free > line.WorseFree {
		t.Fatalf("crossing is %+v", c)
	}
	remove(t, fill)
	fs.take(t, 300) // from above the second line to below the first
	if n := counters(t, p); n.Raised != 2 || n.Rearmed != 1 {
		t.Fatalf("%+v after free space came back and went again", n)
	}
}

func TestSixteenLines(t *testing.T) {
	p, fs := load(t, Options{}), newExt4(t)
	for dev := range uint64(MaxLines - 1) {
		setLine(t, p, &filesystem{kind: "ext4", dev: 1<<40 + dev}, Line{})
	}
	blocks, _ := fs.free(t)
	setLine(t, p, fs, Line{RaiseFree: blocks - 10, RearmFree: blocks})
	if err := p.SetLine(1<<41, "ext4", Line{}); !errors.Is(err, ErrFull) {
		t.Fatalf("line %d: %v", MaxLines+1, err)
	}
	setLine(t, p, fs, Line{RaiseFree: blocks - 20, RearmFree: blocks}) // moving one is no new one
	for range 2 {
		if err := p.ClearLine(1 << 40); err != nil {
			t.Fatal(err)
		}
	}
	setLine(t, p, &filesystem{kind: "ext4", dev: 1 << 41}, Line{})
	fs.take(t, 30)
	if c := nextCrossing(t, p); c.Dev != fs.dev {
		t.Fatalf("crossing is %+v", c)
	}
}

func TestLinesDoNotOutliveTheirOwner(t *testing.T) {
	o := Options{PinDir: pinDir(t)}
	p, fs := load(t, o), newExt4(t)
	for dev := range uint64(MaxLines) {
		setLine(t, p, &filesystem{kind: "ext4", dev: 1<<40 + dev}, Line{})
	}
	p = reload(t, p, o)
	blocks, _ := fs.free(t)
	setLine(t, p, fs, Line{RaiseFree: blocks, RearmFree: blocks})
	fs.take(t, 1)
	nextCrossing(t, p)
}

func TestBadLinesAreRefused(t *testing.T) {
	for name, l := range map[string]Line{
		"free":   {RaiseFree: 2, RearmFree: 1},
		"inodes": {RaiseInodes: 2, RearmInodes: 1},
		"worse":  {WorseFree: 2, RaiseFree: 1, RearmFree: 1},
		"large":  {RaiseFree: 1, RearmFree: 1 << 63},
	} {
		if err := (&Probes{}).SetLine(1, "ext4", l); err == nil || errors.Is(err, ErrNotAttached) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCautiousBound: where per-CPU shares cannot be read, events come early by
// a bounded amount, and Status says so.
func TestCautiousBound(t *testing.T) {
	p, fs := load(t, Options{}), newExt4(t)
	if err := p.usage["ext4"].maps[mapCPUOffsets].Put(uint32(0), cpuOffsets{}); err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Status() {
		if strings.HasPrefix(s.Object, objectUsage) && (s.Object == objectUsage+"ext4") != (s.Reason != "") {
			t.Errorf("%s: reason %q", s.Name, s.Reason)
		}
	}
	blocks, _ := fs.free(t)
	raise := blocks - 2000
	setLine(t, p, fs, Line{RaiseFree: raise, RearmFree: blocks})
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
			t.Fatalf("%d free, line %d: late", free, raise)
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
	setLine(t, p, fs, Line{RaiseFree: raise, RearmFree: blocks})
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
		t.Fatalf("test wrote too little: %d free, line %d", free, raise)
	}
	if is, _ := armed(t, p, fs); is {
		t.Fatalf("%d free, line %d, and no event", free, raise)
	}
	nextCrossing(t, p)
	if n := counters(t, p).Raised; n != 1 {
		t.Errorf("%d events", n)
	}
}
