package node

import (
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/node/watermark"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
)

const toFull = "ebb_node_filesystem_time_to_full_seconds"

// series returns the values of a metric by one of its labels, among those series
// that have another label's value.
func (w *world) series(name, by string, where ...string) map[string]float64 {
	w.t.Helper()
	families, err := w.agent.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	found := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if len(where) == 0 || labels[where[0]] == where[1] {
				found[labels[by]] = m.GetGauge().GetValue()
			}
		}
	}
	return found
}

// wantToFull scrapes, and compares the time until the images' filesystem is full
// with what it should be, within a tenth: the loop and the scrape read in the
// middle of a step. What the rate is of given readings, policy/growth tests exactly.
func (w *world) wantToFull(want float64) {
	w.t.Helper()
	got, known := w.series(toFull, "filesystem", "resource", "bytes")[watermark.Images]
	if !known || got != want && math.Abs(got-want) > want/10 {
		w.t.Errorf("full in %v s (known: %v), want %v", got, known, want)
	}
}

// scrapes lets time go by while writers add so much in each step, and scrapes.
func (w *world) scrapes(n int, step time.Duration, written int64) {
	w.t.Helper()
	for range n {
		w.write(written)
		w.pass(step)
		w.series(toFull, "filesystem")
	}
}

// write takes space as somebody does whom no image belongs to, and raises the
// crossing as the kernel would.
func (w *world) write(bytes int64) {
	w.written += uint64(bytes)
	before := w.rt.Disk()
	w.rt.SetDisk(size, w.written, 100000)
	w.kernel.wrote(fakeDev, before, w.rt.Disk())
}

func TestTimeToFull(t *testing.T) {
	inWorld(t, func(w *world) {
		w.rt.SetDisk(size, 0, 100000)
		w.up()
		if known := w.series(toFull, "filesystem"); len(known) > 0 {
			t.Errorf("known at the first scrape: %v", known)
		}
		w.scrapes(4, 15*time.Second, 0)
		w.wantToFull(math.Inf(1))
		w.scrapes(40, 15*time.Second, int64(3*mib)) // 120 MiB in ten minutes
		w.skew.Store(int64(-24 * time.Hour))
		w.scrapes(40, 15*time.Second, int64(3*mib))
		w.skew.Store(int64(240 * time.Hour))
		w.scrapes(80, 15*time.Second, int64(3*mib))
		w.wantToFull(float64(size-480*mib) / (float64(3*mib) / 15))
		w.scrapes(1, 24*time.Hour, 0)
		w.wantToFull(math.Inf(1))
		inodes := w.series(toFull, "filesystem", "resource", "inodes")
		if got, known := inodes[watermark.Images]; !known || !math.IsInf(got, 1) {
			t.Errorf("no inode is taken, and they are reported as used up in %v s (known: %v)", got, known)
		}
	})
}

// What reclaim frees does not count as writers' deletions: the disk is being
// filled although it stays where it is.
func TestTimeToFullSeesThroughReclaim(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			w.add(name, 100)
			w.pass(time.Second)
		}
		w.up()
		w.series(toFull, "filesystem")
		// 10 MiB in ten seconds, with images going whenever the high threshold is reached.
		const perSecond = float64(1 << 20)
		for range 60 {
			w.write(int64(10 * mib))
			w.pass(10 * time.Second)
			w.series(toFull, "filesystem")
		}
		if len(w.rt.Removed()) < 4 {
			t.Fatalf("only %q were removed", w.rt.Removed())
		}
		w.wantToFull(float64(w.rt.Disk().AvailableBytes) / perSecond)
	})
}

// Another filesystem at the same path is another filesystem, and one without inodes
// does not run out of them.
func TestTimeToFullOfAnotherFilesystem(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.ReconcileInterval = config.Duration(24 * time.Hour) // when it comes is random
		w.up()
		w.scrapes(10, 30*time.Second, int64(mib))
		var free atomic.Uint64 // the loop reads when it likes
		free.Store(5000 * mib)
		w.disk.mount("/", 8<<20|9, "btrfs", func() image.Disk {
			return image.Disk{CapacityBytes: 10000 * mib, AvailableBytes: free.Load()}
		})
		w.pass(time.Second)
		if got := w.series(toFull, "filesystem"); len(got) > 0 {
			t.Errorf("of a filesystem that has just come, it is known when it is full: %v", got)
		}
		free.Store(4940 * mib)
		w.pass(59 * time.Second)
		w.wantToFull(4940)
		if got := w.series(toFull, "filesystem", "resource", "inodes"); len(got) > 0 {
			t.Errorf("inodes that nobody counts are used up in %v", got)
		}
	})
}

// However many scrape, and how often, each gets the same answer.
func TestScrapesDoNotChangeTheRate(t *testing.T) {
	var answers []float64
	for _, between := range []int{0, 1, 7} {
		inWorld(t, func(w *world) {
			w.cfg.ReconcileInterval = config.Duration(24 * time.Hour) // when it comes is random
			w.up()
			for n := range 20 {
				w.write(int64(n%3) * int64(mib))
				w.pass(40 * time.Second)
				for range between {
					w.series(toFull, "filesystem")
				}
			}
			answers = append(answers, w.series(toFull, "filesystem", "resource", "bytes")[watermark.Images])
		})
	}
	if least, most := slices.Min(answers), slices.Max(answers); least == 0 || most > least*1.01 { // the loop reads when it likes
		t.Errorf("full in %v s", answers)
	}
}

// Scrapes are answered without the loop: it sleeps as well as without them.
func TestScrapesDoNotWakeTheLoop(t *testing.T) {
	wakeups := map[bool]float64{}
	for _, scraped := range []bool{false, true} {
		inWorld(t, func(w *world) {
			w.cfg.ReconcileInterval = config.Duration(24 * time.Hour)
			w.up()
			w.pass(time.Minute)
			before := w.metric("ebb_node_timer_wakeups_total")
			if scraped {
				w.scrapes(240, 15*time.Second, 0)
			} else {
				w.pass(time.Hour)
			}
			wakeups[scraped] = w.metric("ebb_node_timer_wakeups_total") - before
		})
	}
	if wakeups[true] != wakeups[false] {
		t.Errorf("%v wake-ups an hour while scraped, %v otherwise", wakeups[true], wakeups[false])
	}
}

func TestDegradedPrograms(t *testing.T) {
	status := func(object, program string, attached bool, idle string, waits bool) bpf.ProgramStatus {
		return bpf.ProgramStatus{Object: object, Name: object + program, Attached: attached, Idle: idle, Waits: waits}
	}
	all := []bpf.ProgramStatus{
		status("lastuse", "_1", true, "", false), status("lastuse", "_2", true, "", false),
		status("usage_ext4", "_3", true, "", false), status("usage_ext4", "_4", false, "only near the watermark", false),
		status("usage_btrfs", "_5", false, "", false), // no such filesystem is watched
		status("writers", "_6", false, "", false), status("writers_ext4", "_7", true, "", false),
		status("heat", "_8", true, "", false), status("heat", "_9", false, "", false),
	}
	for name, test := range map[string]struct {
		status  []bpf.ProgramStatus // nil: no programs at all
		prepare func(*world)
		want    map[string]float64
	}{
		"some":               {all, func(*world) {}, map[string]float64{"lastuse": 0, "usage_ext4": 0, "writers": 1, "writers_ext4": 0, "heat": 1}},
		"what is not wanted": {all, func(w *world) { w.cfg.Writers.Top, w.cfg.Kernel.LayerHeat = 0, config.HeatOff }, map[string]float64{"lastuse": 0, "usage_ext4": 0}},
		"one of two":         {[]bpf.ProgramStatus{status("lastuse", "_10", true, "", false), status("lastuse", "_11", false, "", false)}, func(*world) {}, map[string]float64{"lastuse": 1}},
		"a module is absent": {[]bpf.ProgramStatus{status("lastuse", "_12", false, "", true)}, func(*world) {}, map[string]float64{"lastuse": 0}},
		"none":               {nil, func(w *world) { w.kernel = nil }, map[string]float64{"all": 1}},
		"switched off":       {nil, func(w *world) { w.kernel, w.cfg.Kernel.Enabled = nil, false }, map[string]float64{}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				test.prepare(w)
				if w.kernel != nil {
					w.kernel.status = test.status
				}
				w.up()
				if got := w.series("ebb_node_probe_degraded", "object"); !maps.Equal(got, test.want) {
					t.Errorf("degraded: %v, want %v", got, test.want)
				}
			})
		})
	}
}

func TestConfigInfo(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Mode = config.ModeObserve
		w.up()
		for label, want := range map[string]string{"mode": "observe", "pods": "none", "kernel": "true"} {
			got := w.series("ebb_node_config_info", label)
			if values := slices.Collect(maps.Keys(got)); !slices.Equal(values, []string{want}) || got[want] != 1 {
				t.Errorf("%s is %v, want %s", label, got, want)
			}
		}
	})
}

// TestPagesReadTheDisks: a page shows each disk as it is, although nothing has happened for which the agent
// looked at it.
func TestPagesReadTheDisks(t *testing.T) {
	for _, path := range []string{"/status", "/du"} {
		inWorld(t, func(w *world) {
			w.cfg.ReconcileInterval = config.Duration(24 * time.Hour)
			w.up()
			disk := newPlainDisk(otherDev, size)
			w.mountAt(kubeletDir, disk)
			for n := range uint64(10) {
				w.pass(time.Minute)
				disk.available.Store(size - (n+1)*size/100)
			}
			var p struct{ Filesystems []page.Filesystem }
			w.get(path, &p)
			for _, f := range p.Filesystems {
				if f.Path != kubeletDir {
					continue
				}
				if f.UsedPercent != 10 || f.FullInSeconds == nil || math.Abs(*f.FullInSeconds-90*60) > 9*60 {
					t.Errorf("%s: %+v", path, f)
				}
				return
			}
			t.Errorf("%s has no disk of the kubelet: %+v", path, p)
		})
	}
}
