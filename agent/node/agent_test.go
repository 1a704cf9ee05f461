package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/saver"
	"github.com/ebb-agent/ebb/agent/node/watermark"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// five imports five images of 40 MiB, used in the order of their names.
func (w *world) five() []string {
	var ids []string
	for n := range 5 {
		ids = append(ids, w.add(fmt.Sprintf("i%d", n), 40))
	}
	w.up()
	for n := range 5 {
		w.use(fmt.Sprintf("i%d", n))
	}
	return ids
}

func TestNothingGoesBelowTheThreshold(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		w.fill(79)
		w.pass(24 * time.Hour)
		w.wantRemoved()
		for _, id := range ids {
			w.wantReason(id, image.KeptNotNeeded)
		}
	})
}

func TestReclaimStopsAtTheLowThreshold(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		w.fill(81)
		w.wantRemoved(ids[0], ids[1]) // 4 % each; 6 % are needed
		if used := w.rt.Disk().UsedPercent(); used > 75 {
			t.Errorf("%d %% used", used)
		}
		if n := w.metric("ebb_node_reclaim_runs_total", "low_reached"); n != 1 {
			t.Errorf("%v runs counted", n)
		}
		if n := w.metric("ebb_node_reclaim_reaction_duration_seconds"); n != 1 {
			t.Errorf("%v reactions measured", n)
		}
		if n := w.metric("ebb_node_image_freed_bytes_total"); n != float64(80*mib) {
			t.Errorf("%v bytes counted as freed", n)
		}
		w.wantLogged(2, "image removed", "reason=threshold")
	})
}

// The kernel gets the figure at which the kubelet's arithmetic gives 80 %,
// and how much more of what it counts as free is for root.
func TestWatermarkInTheKernel(t *testing.T) {
	inWorld(t, func(w *world) {
		w.five()
		raise, _ := image.RaiseAt(size, 80)
		got, want := w.kernel.watermarks[fakeDev], raise/blockSize
		if got.RaiseFree != want || got.Reserved != reserved {
			t.Errorf("raised at %d free blocks with %d reserved, want %d and %d", got.RaiseFree, got.Reserved, want, reserved)
		}
	})
}

func TestObserveModeOnlyLogs(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Mode = config.ModeObserve
		w.five()
		w.fill(81)
		w.pass(3 * time.Hour)
		w.wantRemoved()
		w.wantLogged(2, "image would be removed")
		if n := w.metric("ebb_node_reclaim_runs_total", "observed"); n < 1 {
			t.Errorf("%v runs counted", n)
		}
	})
}

// Hours of idleness cost nothing but the reconcile, whose memory is released.
func TestIdleWakesOnlyToReconcile(t *testing.T) {
	inWorld(t, func(w *world) {
		w.five()
		before := w.metric("ebb_node_timer_wakeups_total")
		rested := w.rested.Load()
		w.pass(10 * time.Hour)
		if n := w.rested.Load() - rested; n < 100 || n > 140 {
			t.Errorf("rested %d times in ten hours", n)
		}
		woke := w.metric("ebb_node_timer_wakeups_total") - before
		if woke < 100 || woke > 140 {
			t.Errorf("woke %v times in ten hours; a reconcile each 5 min is 120", woke)
		}
	})
}

func TestFailedRemovalIsLeftAloneForAWhile(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		broken := errors.New("device busy")
		w.rt.SetFaults(fake.Faults{Remove: map[string]error{ids[0]: broken}})
		w.fill(81)
		w.wantRemoved(ids[1], ids[2])
		w.wantReason(ids[0], image.KeptFailed)
		if n := w.metric("ebb_node_image_removal_failures_total"); n != 1 {
			t.Errorf("%v failures counted", n)
		}
		w.rt.SetFaults(fake.Faults{})
		w.fill(81) // falls below, crosses again
		w.wantRemoved(ids[1], ids[2], ids[3], ids[4])
		w.fill(81)
		w.pass(30*time.Second + time.Second)
		w.wantRemoved(ids[1], ids[2], ids[3], ids[4], ids[0])
	})
}

func TestHourlyCap(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Images.MaxRemovalsPerHour = "1"
		ids := w.five()
		w.fill(81)
		w.wantRemoved(ids[0])
		if n := w.metric("ebb_node_reclaim_runs_total", "capped"); n != 1 {
			t.Errorf("%v capped runs", n)
		}
		w.pass(59 * time.Minute)
		w.wantRemoved(ids[0])
		w.down() // the cap outlives the agent
		w.up()
		w.wantRemoved(ids[0])
		w.pass(2 * time.Minute)
		w.wantRemoved(ids[0], ids[1])
	})
}

// A run that was interrupted ends if the high threshold was raised since, or if the agent is to remove nothing.
func TestRunEndsWithTheConfig(t *testing.T) {
	for name, change := range map[string]func(*config.Config){
		"raised":  func(c *config.Config) { c.Images.HighThresholdPercent = 95 },
		"observe": func(c *config.Config) { c.Mode = config.ModeObserve },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.cfg.Images.MaxRemovalsPerHour = "1"
				ids := w.five()
				w.fill(83)
				w.wantRemoved(ids[0])
				w.down()
				before := w.cfg
				change(&w.cfg)
				w.others(79)
				w.up()
				w.pass(2 * time.Hour)
				w.wantRemoved(ids[0])
				w.wantReason(ids[1], image.KeptNotNeeded)
				w.down()
				w.cfg = before
				w.up()
				w.pass(2 * time.Hour)
				w.wantRemoved(ids[0])
			})
		})
	}
}

// By default half of the images may go in an hour. What arrived within that hour does not count, also
// for an agent that finds the removals in the history.
func TestHourlyShare(t *testing.T) {
	in := func(test func(w *world, fill func(name string, age time.Duration, want int))) {
		inWorld(t, func(w *world) {
			w.cfg.Images.LowThresholdPercent = 41
			w.up()
			test(w, func(name string, age time.Duration, want int) {
				for n := range 30 {
					w.add(fmt.Sprintf("%s%02d", name, n), 15)
				}
				w.pass(age)
				w.fill(85) // all 30 have to go
				w.pass(time.Minute)
				if n := len(w.rt.Removed()); n != want {
					t.Errorf("%s: %d images went, want %d", name, n, want)
				}
				w.down()
				w.up()
			})
		})
	}
	in(func(w *world, fill func(string, time.Duration, int)) {
		fill("long on the node", 2*time.Hour, 15)
		w.pass(58 * time.Minute)
		if n := len(w.rt.Removed()); n != 15 {
			t.Errorf("%d images went within the hour", n)
		}
		w.pass(2 * time.Minute)
		if n := len(w.rt.Removed()); n != 15+10 { // ten are more than half of those that are left
			t.Errorf("%d images went after the hour", n)
		}
	})
	in(func(_ *world, fill func(string, time.Duration, int)) {
		fill("arrived a moment ago", 10*time.Minute, 30)
		fill("again", 10*time.Minute, 60)
	})
}

func TestMaximumAgeNeedsNoEvent(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Images.MaximumAge = config.Duration(48 * time.Hour)
		id := w.add("old", 40)
		w.up()
		w.pass(48*time.Hour - time.Second)
		w.wantRemoved()
		w.pass(time.Second)
		w.wantRemoved(id)
		w.wantLogged(1, "image removed", "reason=maximum_age")
	})
}

// Images that are due by their age alone go a tenth at a time; those that the disk needs go at once.
func TestAgesAlonePauseForAnHour(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Images.MaximumAge = config.Duration(48 * time.Hour)
		w.cfg.Images.AgeRemovalsPerHourPercent = 10
		var ids []string
		for n := range 30 {
			ids = append(ids, w.add(fmt.Sprintf("old%d", n), 10))
		}
		w.up()
		w.pass(48*time.Hour + time.Minute)
		sorted := func() []string { return slices.Sorted(slices.Values(w.rt.Removed())) }
		want := func(n int) {
			t.Helper()
			if got := sorted(); len(got) != n {
				t.Errorf("%d images are gone, want %d", len(got), n)
			}
		}
		want(3)
		if n := w.metric("ebb_node_reclaim_runs_total", "age_capped"); n != 1 {
			t.Errorf("%v runs ended so", n)
		}
		w.down() // it outlives the agent
		w.up()
		w.pass(30 * time.Minute)
		want(3)
		w.pass(31 * time.Minute)
		want(5) // of 27
		if n := w.metric("ebb_node_reclaim_runs_total", "age_capped"); n != 1 {
			t.Errorf("%v runs ended so: looks that may do nothing count", n)
		}
		w.fill(81) // 61 MiB too many
		if got := len(w.rt.Removed()); got < 5+6 {
			t.Errorf("%d images are gone: the disk waits for the cap", got)
		}
		for w.pass(0); len(w.rt.Removed()) < len(ids); w.pass(time.Hour) {
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(ids)), sorted()); diff != "" {
			t.Error(diff)
		}
	})
}

// An image that runs is used as long as it runs, and its age counts from the
// end.
func TestMaximumAgeCountsFromTheEndOfUse(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Images.MaximumAge = config.Duration(24 * time.Hour)
		id := w.add("worker", 40)
		w.up()
		w.rt.Run(fake.CRINamespace, "c", "worker")
		w.pass(7 * 24 * time.Hour)
		w.rt.Stop(fake.CRINamespace, "c")
		w.rt.Delete(fake.CRINamespace, "c")
		w.pass(23 * time.Hour)
		w.wantRemoved()
		w.pass(2 * time.Hour)
		w.wantRemoved(id)
	})
}

// The wall clock may say what it likes: while the node is up no order and no
// age follows it, also across restarts of the agent.
func TestWallClockJumps(t *testing.T) {
	for _, skew := range []time.Duration{30 * 24 * time.Hour, -30 * 24 * time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.cfg.Images.MaximumAge = config.Duration(24 * time.Hour)
				ids := w.five()
				w.skew.Store(int64(skew))
				w.pass(time.Hour)
				w.use("i1")
				w.down()
				w.up()
				w.pass(time.Hour)
				w.use("i0")
				w.wantRemoved()
				w.fill(81)
				w.wantRemoved(ids[2], ids[3])
			})
		})
	}
}

// Neither a wrong clock at boot nor a long time off makes images old.
func TestRebootKeepsAges(t *testing.T) {
	for _, off := range []time.Duration{time.Minute, 90 * 24 * time.Hour, -90 * 24 * time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.cfg.Images.MaximumAge = config.Duration(24 * time.Hour)
				ids := w.five()
				w.pass(10 * time.Hour)
				w.down()
				w.boot, w.bootID = time.Now(), "boot-2"
				w.skew.Store(int64(off))
				w.kernel = newFakeKernel() // pins do not outlive a boot
				w.kernel.now = w.sinceBoot
				w.up()
				w.wantRemoved()
				if age := w.explain().Time.Sub(*w.image(ids[4]).LastUsed); age < 10*time.Hour-time.Minute || age > 10*time.Hour+time.Minute {
					t.Errorf("unused for %s, want 10h", age)
				}
				w.pass(13 * time.Hour)
				w.wantRemoved()
				w.pass(2 * time.Hour)
				w.wantRemoved(ids...)
			})
		})
	}
}

// A runtime that answers late is not a trouble that lasts.
func TestLateRuntimeLeavesNothingDegraded(t *testing.T) {
	inWorld(t, func(w *world) {
		var up atomic.Bool
		w.dial = func(context.Context) (Runtime, error) {
			if !up.Load() {
				return nil, errors.New("no such file")
			}
			return w.rt, nil
		}
		w.up()
		w.pass(time.Minute)
		if s := w.status(); !slices.Equal(s.Degraded, []string{"dial"}) {
			t.Errorf("before it answers: %q", s.Degraded)
		}
		up.Store(true)
		w.pass(time.Minute)
		if s := w.status(); !s.Ready || len(s.Degraded) > 0 {
			t.Errorf("ready %v, degraded %q", s.Ready, s.Degraded)
		}
	})
}

func TestHoldReportsWhatHoldsTheSpaceAndDoesNotGrind(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		w.rt.Run(fake.CRINamespace, "c", "i3")
		w.cfg.Images.Keep = []string{"i4"}
		w.down()
		w.up()
		w.fill(99)
		w.wantRemoved(ids[0], ids[1], ids[2])
		if w.metric("ebb_node_reclaim_holding") != 1 || w.metric("ebb_node_reclaim_held_bytes", "in_use") != float64(40*mib) ||
			w.metric("ebb_node_reclaim_held_bytes", "keep_rule") != float64(40*mib) {
			t.Errorf("hold %+v", w.status().Filesystems)
		}
		w.wantLogged(1, "the low threshold cannot be reached; holding", "in_use 40 MiB", "not_images")
		runs := w.metric("ebb_node_reclaim_runs_total")
		w.pass(3 * time.Hour)
		w.wantLogged(1, "the low threshold cannot be reached; holding")
		if n := w.metric("ebb_node_reclaim_runs_total"); n != runs {
			t.Errorf("%v more runs while nothing changed", n-runs)
		}
		w.fill(60)
		w.pass(time.Hour)
		if w.metric("ebb_node_reclaim_holding") != 0 {
			t.Error("still holding at 60 %")
		}
	})
}

// Above its high threshold, the disk is looked at again when it gets a point worse.
func TestWorseIsNoticedInHold(t *testing.T) {
	inWorld(t, func(w *world) {
		w.five()
		w.rt.Run(fake.CRINamespace, "c", "i0")
		w.pass(time.Minute)
		w.fill(97)
		removed := len(w.rt.Removed())
		id := w.add("late", 4)
		w.pass(time.Minute)
		if len(w.rt.Removed()) != removed {
			t.Fatalf("%s was removed at once", id)
		}
		w.fill(99)
		w.wantReasonGone(id)
	})
}

func (w *world) wantReasonGone(id string) {
	w.t.Helper()
	for _, r := range w.rt.Removed() {
		if r == id {
			return
		}
	}
	w.t.Errorf("%s was not removed", id)
}

// Less is freed than computed, and the disk does not move: the run goes on
// only after it has settled, and logs that. It waits for late space with each
// removal, on btrfs with the first one alone.
func TestShortfall(t *testing.T) {
	for kind, most := range map[string]time.Duration{"ext4": 2 * time.Second, "btrfs": 300 * time.Millisecond} {
		inWorld(t, func(w *world) {
			w.disk.kind = kind
			ids := w.five()
			w.rt.SetFaults(fake.Faults{Withheld: 1})
			w.fill(81)
			w.pass(300 * time.Millisecond)
			if n := w.metric("ebb_node_image_removal_shortfalls_total"); kind == "ext4" && n > 2 {
				t.Errorf("%v removals on ext4 were short before late space could show", n)
			}
			w.pass(most - 300*time.Millisecond)
			w.wantRemoved(ids...)
			if n := w.metric("ebb_node_image_removal_shortfalls_total"); n != 5 {
				t.Errorf("%s: %v shortfalls counted", kind, n)
			}
		})
	}
}

// A use that the kernel saw after the plan was made spares the image.
func TestUsedSinceThePlan(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		key := w.keyOf(ids[0])
		w.rt.SetFaults(fake.Faults{Delay: time.Second}) // the world moves on between plan and step
		go func() {
			time.Sleep(500 * time.Millisecond) // after the plan, before the check's answer
			w.kernel.ran(key)
		}()
		w.fill(81)
		w.pass(time.Minute)
		w.wantRemoved(ids[1], ids[2])
	})
}

func TestUsedWhileTheAgentIsDown(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		w.pass(time.Minute)
		w.down()
		w.kernel.ran(w.keyOf(ids[0]))
		w.pass(time.Minute)
		w.up()
		w.fill(81)
		w.wantRemoved(ids[1], ids[2])
	})
}

// A directory that cannot be resolved while the disk is full is resolved
// later, and the use that the kernel noted meanwhile counts.
func TestLateResolution(t *testing.T) {
	inWorld(t, func(w *world) {
		id := w.add("a", 40)
		key := w.keyOf(id)
		w.rt.SetFaults(fake.Faults{Resolve: inventory.ErrNoSpace})
		w.up()
		w.pass(10 * time.Minute)
		used := time.Now()
		w.kernel.ran(key)
		w.pass(10 * time.Minute)
		w.rt.SetFaults(fake.Faults{})
		w.pass(10 * time.Minute)
		if got := w.image(id).LastUsed; got == nil || got.Sub(used).Abs() > time.Second {
			t.Errorf("last used %v, want %v", got, used)
		}
		w.wantLogged(1, "level=WARN", "a layer's directory cannot be found yet")
	})
}

// Without kernel programs, uses come from events, and a timer reads the disk.
func TestWithoutKernelPrograms(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kernel = nil
		ids := w.five()
		w.pass(time.Minute)
		w.use("i0") // created, run and deleted between two looks
		w.fill(81)
		w.wantRemoved()
		w.pass(watermark.PollInterval)
		w.wantRemoved(ids[1], ids[2])
		w.wantLogged(1, "level=WARN", "no kernel programs")
		if w.metric("ebb_node_filesystem_polled", "images") != 1 {
			t.Error("the source of the threshold is not reported")
		}
	})
}

func TestRuntimeTroubleIsRiddenOut(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		w.rt.CutEvents(errors.New("connection reset"))
		w.rt.SetFaults(fake.Faults{Inventory: errors.New("unavailable"), Check: errors.New("timeout"), Withdraw: errors.New("timeout")})
		w.fill(81)
		w.pass(10 * time.Minute)
		w.wantRemoved()
		w.wantLogged(0, "could not be removed; continuing with others")
		if w.metric("ebb_node_ready") != 0 || w.agent.health.notReady.Load() == nil {
			t.Error("ready without a runtime")
		}
		w.rt.SetFaults(fake.Faults{})
		w.rt.ResumeEvents()
		w.pass(retryMost + time.Second)
		w.wantRemoved(ids[0], ids[1])
		if w.metric("ebb_node_ready") != 1 || w.agent.health.notReady.Load() != nil {
			t.Error("not ready again")
		}
		w.wantLogged(1, "level=WARN", "runtime events broke off")
		w.wantLogged(1, "level=WARN", "cannot read the node")
	})
}

func TestBlockedRuntimeLosesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.rt.SetBlocked("the sandbox image is unknown")
		ids := w.five()
		w.fill(99)
		w.pass(time.Hour)
		w.wantRemoved()
		w.wantReason(ids[0], image.KeptBlocked)
	})
}

// breakSnapshotterOf has the snapshotter of these images answer no more.
func (w *world) breakSnapshotterOf(ids []string) {
	in := map[string]string{}
	for _, id := range ids {
		in[id] = "sick"
	}
	w.rt.SetFaults(fake.Faults{Broken: map[string]string{"sick": "timeout"}, In: in})
}

// Beside a broken snapshotter a hold keeps images, too: one that is full of other data does not cost each image its
// place the moment it becomes unused.
func TestHoldBesideABrokenSnapshotter(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		w.run("i0", "i1", "i2")
		w.breakSnapshotterOf(ids[3:])
		w.pass(time.Minute)
		w.fill(99)
		w.pass(time.Minute)
		w.wantLogged(1, "the low threshold cannot be reached; holding", "partial=")
		w.end("i0")
		w.pass(10 * time.Minute)
		w.wantRemoved()
	})
}

// A sweep that the hourly cap has cut short goes on although its images could not be read for a while.
func TestSnapshotterBreaksInAHold(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Images.MaxRemovalsPerHour = "1"
		ids := w.five()
		w.fill(99)
		w.pass(time.Minute)
		w.wantRemoved(ids[0])
		w.wantLogged(1, "holding")
		w.breakSnapshotterOf(ids[1:])
		w.pass(6 * time.Minute)
		w.rt.SetFaults(fake.Faults{})
		w.pass(5 * time.Hour)
		w.wantRemoved(ids...)
	})
}

// A snapshotter that cannot be read holds its images only that long: they have their turn afterwards, although a
// hold has begun.
func TestHoldAndABrokenSnapshotter(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		w.breakSnapshotterOf(ids)
		w.pass(10 * time.Minute)
		w.fill(99) // with 20 percent of images
		w.pass(time.Minute)
		w.wantRemoved()
		w.wantReason(ids[0], image.KeptUseUnknown)
		w.wantLogged(1, "holding", "partial=")
		w.down() // the next agent knows of it, too
		w.up()
		w.rt.SetFaults(fake.Faults{})
		w.pass(10 * time.Minute)
		w.wantRemoved(ids...)
		w.wantLogged(2, "holding")
	})
}

// TestBrokenSnapshotter: a snapshotter that cannot be read, and one on another disk, are logged once, and do not
// keep the agent from being ready.
func TestBrokenSnapshotter(t *testing.T) {
	inWorld(t, func(w *world) {
		w.five()
		w.rt.SetFaults(fake.Faults{Broken: map[string]string{"stargz": "connection refused"}, Unwatched: map[string]string{"nydus": "it is on /other"}})
		w.pass(time.Hour)
		if s := w.status(); !s.Ready || !slices.Contains(s.Degraded, "snapshotter stargz cannot be read") || !slices.Contains(s.Degraded, "snapshotter nydus is on another disk") {
			t.Errorf("the status reports ready %v, degraded %q", s.Ready, s.Degraded)
		}
		for _, name := range []string{"ebb_node_snapshotters_broken", "ebb_node_snapshotters_unwatched"} {
			if n := w.metric(name); n != 1 {
				t.Errorf("%s is %v, want 1", name, n)
			}
		}
		w.rt.SetFaults(fake.Faults{})
		w.pass(time.Hour)
		if s := w.status(); len(s.Degraded) > 0 {
			t.Errorf("degraded: %q", s.Degraded)
		}
		for _, name := range []string{"ebb_node_snapshotters_broken", "ebb_node_snapshotters_unwatched"} {
			if n := w.metric(name); n != 0 {
				t.Errorf("%s is %v, want 0", name, n)
			}
		}
		w.wantLogged(1, "level=WARN", "cannot read a snapshotter", "snapshotter=stargz", "connection refused")
		w.wantLogged(1, "level=WARN", "on a disk that ebb does not watch", "snapshotter=nydus", "/other")
		w.wantLogged(1, "level=INFO", "the snapshotter can be read again")
	})
}

// Stamps that could not be carried over make everything recent, once.
func TestLostStamps(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Images.MaximumAge = config.Duration(24 * time.Hour)
		ids := w.five()
		w.pass(23 * time.Hour)
		w.down()
		w.kernel.lost = true
		w.up()
		w.pass(2 * time.Hour)
		w.wantRemoved()
		w.pass(23 * time.Hour)
		if n := len(w.rt.Removed()); n != len(ids) {
			t.Errorf("%d images removed a day later, want all", n)
		}
	})
}

// What another image's directory with the same inode number was used for, long
// before this image came, is not this image's use.
func TestStampFromBeforeTheImage(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.pass(time.Hour)
		id := w.add("new", 40)
		w.kernel.mu.Lock()
		w.kernel.unresolved[w.keyOf(id)] = uint64(time.Minute)
		w.kernel.mu.Unlock()
		w.pass(time.Hour)
		if got := w.image(id).LastUsed; got != nil {
			t.Errorf("last used %v", got)
		}
	})
}

// The record of an image may be updated after its first use, and before the agent looks: by the
// CRI, which labels it, or by another pull.
func TestUseBeforeTheRecordIsUpdated(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.pass(time.Hour)
		id := w.add("new", 40)
		w.pass(10 * time.Millisecond)
		w.kernel.ran(w.keyOf(id))
		used := time.Now()
		w.pass(10 * time.Millisecond)
		w.add("new", 40)
		w.pass(time.Hour)
		w.wantUsed(id, used)
	})
}

// A state that cannot be written is tried again without anything happening,
// and what was learned in between is not lost.
func TestStateIsWrittenOnceItCan(t *testing.T) {
	inWorld(t, func(w *world) {
		blocked := filepath.Join(w.cfg.State.Directory, "state")
		if err := os.WriteFile(blocked, nil, 0o600); err != nil { // a file where the directory should be
			t.Fatal(err)
		}
		w.cfg.State.Directory = blocked
		ids := w.five()
		if w.metric("ebb_node_state_writable") != 0 {
			t.Error("the state is reported as writable")
		}
		if err := os.Remove(blocked); err != nil {
			t.Fatal(err)
		}
		w.pass(2 * saver.Retry)
		if w.metric("ebb_node_state_writable") != 1 {
			t.Error("still not persisted")
		}
		w.wantLogged(1, "level=WARN", "state cannot be written")
		used := *w.image(ids[0]).LastUsed
		w.down()
		w.up()
		if got := w.image(ids[0]).LastUsed; got == nil || !got.Equal(used) {
			t.Errorf("last used %v, want %v", got, used)
		}
	})
}

// While images wait for the cap of those that go by age, a disk takes those that it needs, and no more; and its run is
// over at the low threshold.
func TestCapByAgeWhileTheDiskNeedsSome(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Images.MaximumAge, w.cfg.Images.AgeRemovalsPerHourPercent = config.Duration(time.Hour), 10
		w.up()
		for n := range 12 {
			w.add(fmt.Sprintf("i%d", n), 30)
		}
		w.pass(61 * time.Minute)
		removed := func(when string, want int) {
			t.Helper()
			if got := len(w.rt.Removed()); got != want {
				t.Errorf("%s: %d images are gone, want %d", when, got, want)
			}
		}
		removed("by age", 1)
		w.fill(81)
		w.pass(time.Second)
		removed("60 MiB are needed", 1+2)
		w.fill(78)
		w.pass(10 * time.Minute)
		removed("below the high threshold", 1+2)
		w.pass(time.Hour)
		removed("an hour later", 1+2+1)
	})
}
