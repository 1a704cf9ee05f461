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
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fs"
)

// testDisk is one filesystem of 1 GiB wherever it is asked for.
type testDisk struct{ available uint64 }

func (d *testDisk) Stat(string) (image.Disk, fs.Info, error) {
	return image.Disk{CapacityBytes: 1 << 30, AvailableBytes: d.available}, fs.Info{Type: "ext4", Dev: 1, BlockSize: 4096}, nil
}

func (d *testDisk) Settle(context.Context, string) (image.Disk, error) {
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
