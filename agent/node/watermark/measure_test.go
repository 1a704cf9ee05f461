package watermark

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fs"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// testDisk is one filesystem of 1 GiB wherever it is asked for.
type testDisk struct{ available uint64 }

func (d *testDisk) Stat(string) (image.Disk, fs.Info, error) {
	return image.Disk{CapacityBytes: 1 << 30, AvailableBytes: d.available}, fs.Info{Type: "ext4", Dev: 1, BlockSize: 4096}, nil
}

func (d *testDisk) Settle(context.Context, string, func(image.Disk) bool) (image.Disk, error) {
	disk, _, err := d.Stat("")
	return disk, err
}

func (d *testDisk) Identify(string) (fs.Identity, error) { return fs.Identity{Dev: 1}, nil }

func (d *testDisk) WatchMounts(context.Context, string, chan<- struct{}) error { return nil }

func newTestWatcher(d Disk, with ...func(*Options)) *Watcher {
	log := slog.New(slog.DiscardHandler)
	o := Options{
		Config: config.Default(), Disk: d, Log: log, Conditions: condition.NewSet(log),
		Metrics: NewMetrics(program.Factory{Registry: prometheus.NewRegistry(), Subsystem: "node"}),
		Now:     time.Now, Boot: func() time.Duration { return time.Hour },
	}
	for _, f := range with {
		f(&o)
	}
	return New(o)
}

// What others delete while a removal is measured is none of its own: not what it has freed,
// and not added back to what writers fill.
func TestOthersDeletions(t *testing.T) {
	d := &testDisk{available: 100 << 20}
	w := newTestWatcher(d)
	w.Survey() // the kubelet's directory
	f := w.Filesystems()[0]
	before, err := w.Measure(f)
	if err != nil {
		t.Fatal(err)
	}
	d.available += 60 << 20
	got := w.Removed(t.Context(), f, before, image.Decision{FreesBytes: 40 << 20})
	if want := (Freed{Bytes: 40 << 20, About: true}); got != want {
		t.Errorf("freed is %+v, want %+v", got, want)
	}
	if f.filling.reclaimedBytes != 40<<20 {
		t.Errorf("%d bytes are added back to what writers fill", f.filling.reclaimedBytes)
	}
	if f.AvailableBytes != d.available {
		t.Errorf("the latest reading has %d bytes available, the disk %d", f.AvailableBytes, d.available)
	}
}

// dirtyDisk is a btrfs on which some data is not allocated yet.
type dirtyDisk struct {
	testDisk
	written int // how often everything was written
}

func (d *dirtyDisk) Stat(path string) (image.Disk, fs.Info, error) {
	disk, info, err := d.testDisk.Stat(path)
	info.Type = "btrfs"
	return disk, info, err
}

func (d *dirtyDisk) Settle(_ context.Context, path string, reached func(image.Disk) bool) (image.Disk, error) {
	disk, _, err := d.Stat(path)
	if reached != nil && !reached(disk) {
		d.written++
	}
	return disk, err
}

// leavingDisk is a btrfs that shows less, for a moment, than when it had settled.
type leavingDisk struct{ dirtyDisk }

func (d *leavingDisk) Settle(ctx context.Context, path string, reached func(image.Disk) bool) (image.Disk, error) {
	disk, err := d.dirtyDisk.Settle(ctx, path, reached)
	disk.AvailableBytes += 64 << 20
	return disk, err
}

// While a block group of btrfs is being removed, what is free in it is not missing.
func TestFreeSpaceThatStatfsLeavesOut(t *testing.T) {
	const percent = (1 << 30) / 100
	d := &leavingDisk{dirtyDisk{testDisk: testDisk{available: 18 * percent}}} // with the group, 24
	w := newTestWatcher(d)
	w.Place(inventory.Roots{Images: "/"})
	w.Survey()
	f := w.Filesystems()[0]
	want := d.available + 64<<20
	if err := w.ReadForPlan(t.Context(), f); err != nil || f.AvailableBytes != want || f.HighReached() {
		t.Errorf("the plan is made for %d bytes available, want %d; %v", f.AvailableBytes, want, err)
	}
	before, err := w.Measure(f)
	if err != nil {
		t.Fatal(err)
	}
	w.Removed(t.Context(), f, before, image.Decision{FreesBytes: 64 << 20})
	if f.AvailableBytes != want {
		t.Errorf("after the removal, %d bytes are available, want %d", f.AvailableBytes, want)
	}
}

// countedProbes know what is free once everything is written.
type countedProbes struct {
	Probes
	free uint64 // blocks
}

func (p *countedProbes) CanWatch(string) bool                                 { return true }
func (p *countedProbes) SetWatermark(uint64, string, bpf.Watermark) error     { return nil }
func (p *countedProbes) Counted(uint64) (free uint64, ok bool, err error)     { return p.free, true, nil }
func (p *countedProbes) GivenBack(uint64) (blocks uint64, ok bool, err error) { return 0, true, nil }

// On btrfs, what is dirty is written before a plan where it decides, and only there.
func TestDirtyDataThatDecides(t *testing.T) {
	const percent = (1 << 30) / 100
	for name, c := range map[string]struct {
		shown, counted uint64 // percent of the disk
		written        int
	}{
		"far from all thresholds":      {60, 70, 0},
		"between the thresholds":       {76, 78, 0},
		"the high one, once written":   {78, 81, 1},
		"the high one, written or not": {81, 84, 0},
		"the low one, once written":    {74, 76, 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := &dirtyDisk{testDisk: testDisk{available: (100 - c.shown) * percent}}
			w := newTestWatcher(d, func(o *Options) { o.Probes = &countedProbes{free: (100 - c.counted) * percent / 4096} })
			w.Place(inventory.Roots{Images: "/"})
			w.Survey()
			f := w.Filesystems()[0]
			if err := w.ReadForPlan(t.Context(), f); err != nil || d.written != c.written {
				t.Errorf("everything was written %d times, want %d; %v; thresholds %+v", d.written, c.written, err, f.Thresholds)
			}
		})
	}
}
