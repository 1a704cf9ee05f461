package bpf

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/tools/loopfs"
)

// begin prepares a way of taking space here.
func (fs *filesystem) begin(t testing.TB, way loopfs.Way) (step func() error) {
	t.Helper()
	here := &loopfs.FS{Kind: fs.kind, Dir: fs.dir, Dev: fs.dev}
	t.Cleanup(here.Release)
	step, err := way.Begin(here)
	if err != nil {
		t.Fatalf("%s: %v", way.Name, err)
	}
	return step
}

// sync makes what statfs reports true.
func (fs *filesystem) sync(t testing.TB) {
	t.Helper()
	fd, err := unix.Open(fs.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Syncfs(fd); err != nil {
		t.Fatal(err)
	}
}

// TestNeverLateByAnyWay: on xfs and btrfs, the step that brings free space to
// the watermark raises the event, before anything is synced; and it is not early by
// more than what is in flight.
func TestNeverLateByAnyWay(t *testing.T) {
	p := load(t, Options{})
	for _, kind := range []string{"xfs", "btrfs"} {
		for _, way := range loopfs.Ways {
			t.Run(kind+"/"+way.Name, func(t *testing.T) {
				fs := newKind(t, kind)
				step := fs.begin(t, way)
				fs.sync(t)
				free, _ := fs.free(t)
				watermark := Watermark{RaiseFree: free - 400, RearmFree: free - 300}
				setWatermark(t, p, fs, watermark)
				defer clearWatermark(t, p, fs)
				before := now(t)
				crossByAnyWay(t, p, fs, watermark.RaiseFree, way, step)
				got := nextCrossing(t, p)
				if got.Dev != fs.dev || got.Inodes || got.BootNS < before || got.BootNS > now(t) || got.Free > watermark.RaiseFree {
					t.Errorf("crossing is %+v, watermark %d", got, watermark.RaiseFree)
				}
			})
		}
	}
}

func newKind(t testing.TB, kind string) *filesystem {
	t.Helper()
	switch kind {
	case "ext4":
		return newExt4(t)
	case "xfs":
		return newXfs(t)
	}
	// One copy of the metadata, so that its block groups fill twice as soon.
	return newBtrfs(t, "-m", "single")
}

// inFlight is how many blocks an event may be early by. xfs: what a
// transaction of its own workers holds. btrfs: a block for each tiny file since
// the latest sync, which will end up in the metadata instead.
const inFlight = 200

// crossByAnyWay steps until the event comes, and checks each step against what
// statfs reports, on btrfs after a sync: too many syncs would hide what is in
// flight, so only some steps are checked.
func crossByAnyWay(t *testing.T, p *Probes, fs *filesystem, raise uint64, way loopfs.Way, step func() error) {
	t.Helper()
	for n := range 100000 {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", n, err)
		}
		is, _ := armed(t, p, fs)
		if fs.kind == "btrfs" {
			if is && n%150 != 149 {
				continue
			}
			fs.sync(t)
			if way.Metadata {
				is, _ = armed(t, p, fs)
			}
		}
		free, _ := fs.free(t)
		if is && free <= raise {
			t.Fatalf("step %d: %d free, watermark %d, and no event: late", n, free, raise)
		}
		if !is && free > raise+inFlight {
			t.Fatalf("step %d: %d free, watermark %d: event %d early", n, free, raise, free-raise)
		}
		if !is {
			return
		}
	}
	free, _ := fs.free(t)
	t.Fatalf("the watermark %d was never reached: %d free", raise, free)
}
