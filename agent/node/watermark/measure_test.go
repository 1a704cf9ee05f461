package watermark

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
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
	compressed bool
	written    int // how often everything was written
}

func (d *dirtyDisk) Stat(path string) (image.Disk, fs.Info, error) {
	disk, info, err := d.testDisk.Stat(path)
	info.Type, info.Compressed = "btrfs", d.compressed
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

// fillingProbes count what is written to a disk of 1 GiB.
type fillingProbes struct {
	countedProbes
	began time.Time
	rate  uint64 // blocks a second
}

func (p *fillingProbes) Counted(uint64) (free uint64, ok bool, err error) {
	return p.free - min(p.free, uint64(float64(p.rate)*time.Since(p.began).Seconds())), true, nil
}

// A disk that fills fast is not written back before a plan: that takes seconds, and slows all changes of the
// runtime's database. What is written counts as used until the run ends, and removals are measured without it.
func TestFastFill(t *testing.T) {
	const percent = (1 << 30) / 100 / 4096 // blocks
	for name, c := range map[string]struct {
		counted, rate uint64 // percent of the disk; and in a second
		compressed    bool
		fast          bool
	}{
		"full in five seconds":      {81, 4, false, true},
		"full in nine":              {81, 2, false, true},
		"full in nineteen":          {81, 1, false, false},
		"not over the threshold":    {78, 4, false, false},
		"over it in this moment":    {79, 60, false, true},
		"everything is compressed":  {81, 4, true, false},
		"full, and nobody writes":   {100, 0, false, false},
		"nobody writes any more":    {81, 0, false, false},
		"it is full in this moment": {99, 90, false, true},
		"it shows already":          {99, 90, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				d := &dirtyDisk{testDisk: testDisk{available: 24 * percent * 4096}, compressed: c.compressed}
				if name == "it shows already" {
					d.available = 18 * percent * 4096
				}
				p := &fillingProbes{countedProbes{free: (100 - c.counted) * percent}, start, c.rate * percent}
				w := newTestWatcher(d, func(o *Options) {
					o.Probes, o.Boot = p, func() time.Duration { return time.Since(start) }
				})
				w.Place(inventory.Roots{Images: "/"})
				w.Survey()
				f := w.Filesystems()[0]
				if err := w.ReadForPlan(t.Context(), f); err != nil {
					t.Fatal(err)
				}
				counted, _, _ := p.Counted(0)
				want := d.available
				if c.fast {
					want = counted * 4096
				}
				if f.AvailableBytes != want || (d.written == 0) != (c.fast || c.counted == 78 || f.HighReached()) {
					t.Errorf("%d bytes are available, want %d, and everything was written %d times", f.AvailableBytes, want, d.written)
				}
				if !c.fast {
					return
				}
				before, err := w.Measure(f)
				if err != nil || before.AvailableBytes != d.available || f.AvailableBytes != want {
					t.Fatalf("%d bytes are measured, want %d; %d available, want %d; %v", before.AvailableBytes, d.available, f.AvailableBytes, want, err)
				}
				began := time.Now()
				if w.Removed(t.Context(), f, before, image.Decision{FreesBytes: 64 << 20}); time.Since(began) > 0 {
					t.Errorf("it waits for %v", time.Since(began))
				}
				if f.CountDirty(false, time.Now()); w.Read(f) != nil || f.AvailableBytes != d.available {
					t.Errorf("in the end %d bytes are available, want %d", f.AvailableBytes, d.available)
				}
				f.CountDirty(true, time.Now())
				time.Sleep(dirtyFor)
				if w.Read(f) != nil || f.AvailableBytes != d.available {
					t.Errorf("much later %d bytes are available, want %d", f.AvailableBytes, d.available)
				}
			})
		})
	}
}
