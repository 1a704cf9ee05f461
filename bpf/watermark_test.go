package bpf

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/tools/loopfs"
)

// TestDeletingArms: on every filesystem what is deleted arms the watermark again, in
// time for whoever takes space next, and nothing is sent below it meanwhile. On btrfs and
// a real-time kernel the event may follow the allocation by a moment, without another one
// (usage_btrfs.bpf.c).
func TestDeletingArms(t *testing.T) {
	for _, kind := range fsTypes {
		t.Run(kind, func(t *testing.T) {
			p, fs := load(t, Options{}), newKind(t, kind)
			if kind == "btrfs" {
				fs.commitsOnDemand(t)
			}
			empty, _ := fs.free(t)
			setWatermark(t, p, fs, Watermark{RaiseFree: empty - 2000, RearmFree: empty - 1000})
			for round := range uint64(4) {
				files := []string{fs.take(t, 1200), fs.take(t, 1200), fs.take(t, 500)}
				if is, _ := armed(t, p, fs); is && !(kind == "btrfs" && realtime(t)) {
					t.Fatalf("round %d: no event", round)
				}
				nextCrossing(t, p)
				for range 20 {
					files = append(files, fs.take(t, 1))
				}
				if n := counters(t, p); n.Raised != round+1 || n.Rearmed != round || n.Approximate != 0 {
					t.Fatalf("round %d: %+v", round, n)
				}
				for _, file := range files {
					remove(t, file)
				}
				fs.untilFree(t, empty-600)
			}
		})
	}
}

// untilFree waits until what was deleted is given back. xfs does that in the
// background, and statfs gives it a push.
func (fs *filesystem) untilFree(t testing.TB, blocks uint64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		fs.sync(t)
		free, _ := fs.free(t)
		if free >= blocks {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("only %d blocks are free, want %d", free, blocks)
		}
	}
}

// TestInodesOfXfs: free inodes are those of all chunks that would still fit,
// so data takes them as files do, until the share of the disk that inodes may
// have is the smaller figure.
func TestInodesOfXfs(t *testing.T) {
	p := load(t, Options{})
	files := loopfs.Way{Name: "files", Begin: func(fs *loopfs.FS) (func() error, error) {
		return func() error { return os.WriteFile(fs.Path(), nil, 0o644) }, nil
	}}
	for name, way := range map[string]loopfs.Way{
		"files": files, "directories": loopfs.WayNamed("directories"), "data": loopfs.WayNamed("buffered"),
	} {
		for _, share := range []string{"maxpct=50", "maxpct=1"} {
			t.Run(name+"/"+share, func(t *testing.T) {
				fs := newFilesystem(t, "xfs", 320<<20, "-i", share)
				if name == "data" { // until what would fit is less than the share
					_, all := fs.free(t)
					for left := all; left > all-1000; _, left = fs.free(t) {
						fs.take(t, 500)
					}
				}
				step := fs.begin(t, way)
				_, inodes := fs.free(t)
				watermark := Watermark{RaiseInodes: inodes - 600, RearmInodes: inodes}
				setWatermark(t, p, fs, watermark)
				defer clearWatermark(t, p, fs)
				crossBySteps(t, p, fs, watermark, step)
				if c := nextCrossing(t, p); !c.Inodes || c.Free > watermark.RaiseInodes || c.Dev != fs.dev {
					t.Errorf("crossing is %+v", c)
				}
			})
		}
	}
}

// TestNeverLateWithManyWritersElsewhere has writers on every CPU at once, each
// in another way. On btrfs a watermark may be armed and reached again while a block
// group is made (usage_btrfs.bpf.c).
func TestNeverLateWithManyWritersElsewhere(t *testing.T) {
	for _, kind := range []string{"xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			p, fs := load(t, Options{}), newKind(t, kind)
			var steps []func() error
			for _, name := range []string{"buffered", "direct", "mapped", "fallocate", "copy", "write into reflink"} {
				steps = append(steps, fs.begin(t, loopfs.WayNamed(name)))
			}
			fs.sync(t)
			start, _ := fs.free(t)
			raise := start - 2000
			setWatermark(t, p, fs, Watermark{RaiseFree: raise, RearmFree: start})
			var wg sync.WaitGroup
			for _, step := range steps {
				wg.Go(func() {
					for range 600 {
						if err := step(); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			is, _ := armed(t, p, fs)
			fs.sync(t)
			free, _ := fs.free(t)
			if free > raise {
				t.Fatalf("test wrote too little: %d free, watermark %d", free, raise)
			}
			if is {
				t.Fatalf("%d free, watermark %d, and no event", free, raise)
			}
			c := counters(t, p)
			events := nextCrossings(t, p, int(c.Raised))
			if again := len(events) - 1; again != int(c.Rearmed) || again > 0 && kind != "btrfs" || again > 2 {
				t.Errorf("%d events %+v, of %d free at first, watermark %d, %d at last, armed %d times",
					len(events), events, start, raise, free, c.Rearmed)
			}
		})
	}
}

// TestOverwriting: on xfs, writing over blocks again and again raises nothing,
// nor does it on btrfs as long as less than the headroom is written between
// commits; and one event at most for a headroom's worth if more is.
func TestOverwriting(t *testing.T) {
	for _, kind := range []string{"xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			p, fs := load(t, Options{}), newKind(t, kind)
			f, block := fs.filled(t, 512), make([]byte, 512*4096)
			fs.sync(t)
			free, _ := fs.free(t)
			const headroom = 600
			watermark := Watermark{RaiseFree: free - headroom, RearmFree: free - headroom}
			setWatermark(t, p, fs, watermark)
			overwrite := func() {
				if _, err := f.WriteAt(block, 0); err != nil {
					t.Fatal(err)
				}
			}
			for range 20 {
				overwrite()
				fs.sync(t)
			}
			if n := counters(t, p).Raised; n != 0 {
				t.Fatalf("%d events without growth", n)
			}
			events, written := uint64(0), uint64(0)
			for range 40 { // as the agent does: commit and set the watermark again after each event
				overwrite()
				if err := f.Sync(); err != nil {
					t.Fatal(err)
				}
				written += 512
				if n := counters(t, p).Raised; n > events {
					events = n
					fs.sync(t)
					setWatermark(t, p, fs, watermark)
				}
			}
			if most := written / headroom; kind == "xfs" && events > 0 || events > most {
				t.Errorf("%d events for %d blocks over a headroom of %d", events, written, headroom)
			}
			t.Logf("%d events for %d headrooms' worth", events, written/headroom)
		})
	}
}

// TestWatermarkPropertyElsewhere: random histories on xfs and btrfs. Whatever was
// done, once statfs is true free space is at or below the watermark only if there
// was an event since it was last above it.
func TestWatermarkPropertyElsewhere(t *testing.T) {
	for _, kind := range []string{"xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			p, fs := load(t, Options{}), newKind(t, kind)
			shared := fs.filled(t, 2000)
			fs.sync(t)
			crossed := 0
			rapid.Check(t, func(rt *rapid.T) {
				empty, _ := fs.free(t)
				h := &history{t: t, p: p, fs: fs, shared: shared, raised: counters(t, p).Raised}
				defer h.end(empty)
				raise := empty - uint64(rapid.IntRange(200, 2500).Draw(rt, "depth"))
				watermark := Watermark{RaiseFree: raise, RearmFree: raise + uint64(rapid.IntRange(0, 300).Draw(rt, "gap"))}
				setWatermark(t, p, fs, watermark)
				raised := counters(t, p).Raised
				reached := false
				for range rapid.IntRange(4, 12).Draw(rt, "steps") {
					what := h.step(rt)
					is, _ := armed(t, p, fs)
					now := counters(t, p).Raised
					fs.sync(t)
					free, _ := fs.free(t)
					if free <= watermark.RaiseFree && (is || !reached && now == raised) {
						rt.Fatalf("%s: %d free, watermark %+v: armed %v, %d events", what, free, watermark, is, now-raised)
					}
					if free <= watermark.RaiseFree && !reached {
						crossed++
					}
					// The next allocation is what arms it, and may then reach it itself.
					if reached = free <= watermark.RaiseFree; !reached && free > max(watermark.RearmFree, watermark.RaiseFree+1) {
						fs.nudge(t)
						if is, _ := armed(t, p, fs); !is {
							rt.Fatalf("%s: %d free, watermark %+v: not armed again", what, free, watermark)
						}
						raised = counters(t, p).Raised
					}
				}
			})
			if histories := checks(t); crossed < histories/5 {
				t.Errorf("only %d crossings in %d histories", crossed, histories)
			}
		})
	}
}

// checks is how many histories rapid makes: a fifth with -short.
func checks(t testing.TB) int {
	t.Helper()
	n, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	if err != nil {
		t.Fatal(err)
	}
	if testing.Short() {
		n /= 5
	}
	return n
}

// history is one random sequence of writes and deletes.
type history struct {
	t      *testing.T
	p      *Probes
	fs     *filesystem
	shared *os.File
	files  []string
	raised uint64 // before it began
}

func (h *history) step(rt *rapid.T) string {
	h.t.Helper()
	what := rapid.SampledFrom([]string{"write", "direct", "fallocate", "clone", "small", "delete", "delete"}).Draw(rt, "what")
	blocks := rapid.SampledFrom([]int{1, 2, 31, 200, 700, 1500}).Draw(rt, "blocks")
	if what == "delete" {
		if len(h.files) == 0 {
			return what
		}
		i := rapid.IntRange(0, len(h.files)-1).Draw(rt, "file")
		remove(h.t, h.files[i])
		h.files = slices.Delete(h.files, i, i+1)
		return what
	}
	flags := 0
	if what == "direct" {
		flags = unix.O_DIRECT
	}
	f, err := os.OpenFile(h.fs.path(), os.O_CREATE|os.O_RDWR|flags, 0o644)
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	h.files = append(h.files, f.Name())
	switch what {
	case "fallocate":
		err = unix.Fallocate(int(f.Fd()), 0, 0, int64(blocks)*4096)
	case "clone":
		err = unix.IoctlFileClone(int(f.Fd()), int(h.shared.Fd()))
		for n := 0; n < blocks && err == nil; n += 2 {
			_, err = f.WriteAt(make([]byte, 4096), int64(n)*4096)
		}
	case "small":
		_, err = f.Write(make([]byte, 1000))
	default:
		_, err = f.Write(pages(h.t, blocks))
	}
	if err != nil {
		h.t.Fatalf("%s of %d blocks: %v", what, blocks, err)
	}
	return what
}

// end leaves the filesystem as it was, but for metadata on btrfs.
func (h *history) end(empty uint64) {
	for _, file := range h.files {
		remove(h.t, file)
	}
	if h.fs.kind == "xfs" {
		h.fs.untilFree(h.t, empty-100)
	}
	h.fs.sync(h.t)
	nextCrossings(h.t, h.p, int(counters(h.t, h.p).Raised-h.raised)) // or the ring fills
}

// nudge makes one allocation that is given back.
func (fs *filesystem) nudge(t testing.TB) {
	t.Helper()
	remove(t, fs.take(t, 1))
}

// TestOneFilesystemFailsAlone: where a type of filesystem has no programs, the
// others keep theirs, and the reason is reported.
func TestOneFilesystemFailsAlone(t *testing.T) {
	p, fs := load(t, Options{}), newExt4(t)
	for _, kind := range fsTypes {
		if !p.CanWatch(kind) {
			t.Errorf("%s cannot be watched", kind)
		}
	}
	if p.CanWatch("tmpfs") || p.CanWatch("") {
		t.Error("tmpfs can be watched")
	}
	if err := p.SetWatermark(1, "tmpfs", Watermark{}); !errors.Is(err, ErrNotAttached) {
		t.Errorf("watermark of a tmpfs: %v", err)
	}
	if err := p.SetWatermark(1, "btrfs", Watermark{RaiseInodes: 1, RearmInodes: 1}); err == nil || errors.Is(err, ErrNotAttached) {
		t.Errorf("watermark for inodes of a btrfs: %v", err)
	}
	why := errors.New("no such tracepoint")
	for _, kind := range []string{"xfs", "btrfs"} {
		if err := p.usage.on[kind].set.close(); err != nil {
			t.Fatal(err)
		}
		p.usage.on[kind] = usageSet{attachment: attachment{err: why}}
		if err := p.SetWatermark(1, kind, Watermark{}); p.CanWatch(kind) || !errors.Is(err, ErrNotAttached) || !errors.Is(err, why) {
			t.Errorf("watermark of a %s: %v", kind, err)
		}
	}
	for _, s := range p.Status() {
		failed := s.Object == objectUsage+"xfs" || s.Object == objectUsage+"btrfs"
		if s.Working() == failed || failed && s.Reason != why.Error() {
			t.Errorf("%+v", s)
		}
	}
	if _, ok, err := p.Counted(1); ok || err != nil {
		t.Errorf("counted: %v, %v", ok, err)
	}
	blocks, _ := fs.free(t)
	setWatermark(t, p, fs, Watermark{RaiseFree: blocks, RearmFree: blocks})
	fs.take(t, 1)
	nextCrossing(t, p)
}

// TestObjectsShareLayouts: Go reads the maps of all three objects by the types
// generated for one of them.
func TestObjectsShareLayouts(t *testing.T) {
	layouts := func(fsType string) map[string]string {
		o, err := usageObject(fsType, nearBlocks)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for _, name := range []string{"watermark", "watch", "crossing", "usage_counters"} {
			var s *btf.Struct
			if err := o.spec.Types.TypeByName(name, &s); err != nil {
				t.Fatal(err)
			}
			for _, m := range s.Members {
				size, err := btf.Sizeof(m.Type)
				if err != nil {
					t.Fatal(err)
				}
				found[name+"."+m.Name] = fmt.Sprint(m.Offset, size)
			}
		}
		for _, name := range []string{mapWatches, mapCrossings, mapUsageCounts} {
			m := o.spec.Maps[name]
			found[name] = fmt.Sprint(m.Type, m.KeySize, m.ValueSize, m.MaxEntries)
		}
		return found
	}
	want := layouts("ext4")
	for _, other := range []string{"xfs", "btrfs"} {
		if diff := cmp.Diff(want, layouts(other)); diff != "" {
			t.Errorf("ext4 and %s: %s", other, diff)
		}
	}
}
