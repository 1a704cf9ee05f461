package node

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// What an agent waits for, or reports, ends with its cause. These tests have nothing else happen that could
// end it by chance.

// forbidden refuses all Events.
type forbidden struct{}

func (forbidden) PostEvent(context.Context, kube.NodeEvent) error { return kube.ErrForbidden }

// A missing right to write Events does not affect the runtime's events.
func TestReadyWithoutEventsOfTheNode(t *testing.T) {
	inWorld(t, func(w *world) {
		w.events = forbidden{}
		w.five()
		w.run("i0", "i1", "i2", "i3", "i4")
		w.pass(time.Minute)
		w.fill(85)
		w.pass(time.Minute)
		w.wantLogged(1, "level=WARN", "cannot write Events about this node")
		w.rt.SetFaults(fake.Faults{Inventory: errors.New("unavailable")})
		w.rt.Tag(fake.CRINamespace, "i0", "again")
		w.pass(time.Minute)
		w.wantLogged(1, "level=WARN", "cannot read the node")
		w.rt.SetFaults(fake.Faults{})
		w.pass(2 * time.Minute)
		w.wantReady()
	})
}

// A snapshotter that can be read again sends no event. Its images must not wait for one.
func TestSnapshotterIsReadAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		w.breakSnapshotterOf(ids)
		w.rt.Tag(fake.CRINamespace, "i4", "again")
		w.pass(time.Minute)
		w.wantLogged(1, "level=WARN", "cannot read a snapshotter")
		w.rt.SetFaults(fake.Faults{})
		w.fill(99)
		w.pass(time.Second)
		w.wantRemoved(ids...)
	})
}

// It is also looked at again by itself while the disk is full.
func TestFullBesideABrokenSnapshotter(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		w.breakSnapshotterOf(ids)
		w.fill(99)
		w.pass(time.Minute)
		w.wantRemoved()
		w.rt.SetFaults(fake.Faults{})
		w.pass(retryMost + time.Second)
		w.wantRemoved(ids...)
	})
}

// A removal that fails is tried again when the log announces it, also if nothing else was removed.
func TestFailedRemovalAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		w.deadPod("a")
		w.rt.FailStep("c-a", errors.New("device busy"))
		w.up()
		w.pass(time.Second)
		w.wantLogged(1, "could not be removed", "id=c-a", "next=30s")
		w.pass(31 * time.Second)
		w.wantLogged(1, "could not be removed", "id=c-a", "next=1m0s")
		w.rt.FailStep("c-a", nil)
		w.pass(61 * time.Second)
		w.wantDid("c-a", "s-a")
	})
}

// A disk that the images have left is on hold no longer.
func TestHoldEndsWithTheMove(t *testing.T) {
	inWorld(t, func(w *world) {
		w.disk.mount(kubeletDir, fakeDev, "ext4", w.rt.Disk)
		rt := newCounting(w)
		w.five()
		w.run("i0", "i1", "i2", "i3", "i4")
		w.pass(time.Minute)
		w.fill(95)
		w.pass(time.Minute)
		if w.metric("ebb_node_reclaim_holding") != 1 {
			t.Fatal("no hold")
		}
		w.disk.mount("/", thirdDev, "ext4", newPlainDisk(thirdDev, size).read)
		w.pass(time.Minute)
		w.others(50)
		w.pass(time.Minute)
		before, wakeups := rt.inventories.Load(), w.metric("ebb_node_timer_wakeups_total")
		w.pass(4 * time.Minute)
		if n := rt.inventories.Load() - before; n > 1 {
			t.Errorf("the runtime was listed %d times in four minutes", n)
		}
		if n := w.metric("ebb_node_timer_wakeups_total") - wakeups; n > 4 {
			t.Errorf("%v wakeups in four minutes", n)
		}
	})
}

// A pod that wants an image no longer frees it, also if no container ends with it.
func TestHoldEndsWithThePod(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Containers.Enabled = false
		w.pods = &fakePods{list: []kube.Pod{podOf("docker.io/library/i0:latest")}}
		id := w.add("docker.io/library/i0:latest", 100)
		w.up()
		w.use("docker.io/library/i0:latest")
		w.pass(time.Minute)
		w.fill(85)
		w.pass(time.Minute)
		w.wantRemoved()
		w.pods.mu.Lock()
		w.pods.list = nil
		w.pods.mu.Unlock()
		w.pods.set(nil)
		w.pass(time.Second)
		w.wantRemoved(id)
	})
}

// A runtime that is back may have its data elsewhere.
func TestRuntimeIsBackElsewhere(t *testing.T) {
	inWorld(t, func(w *world) {
		w.disk.mount(contentDir, otherDev, "ext4", w.rt.ContentDisk)
		w.five()
		w.wantWatermarks(fakeDev)
		w.rt.CutEvents(errors.New("connection reset"))
		w.rt.SplitContent(contentDir, size, 0, 100000)
		w.rt.ResumeEvents()
		w.pass(time.Minute)
		w.wantWatermarks(fakeDev, otherDev)
	})
}

// The hourly cap has room again: also if the disk needs none of it any more.
func TestCapEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Images.MaxRemovalsPerHour = "1"
		w.five()
		w.fill(95)
		w.pass(time.Minute)
		if len(w.status().Degraded) == 0 {
			t.Fatal("the cap is not reached")
		}
		w.others(50)
		w.pass(2 * time.Hour)
		if s := w.status(); len(s.Degraded) > 0 {
			t.Errorf("degraded: %q", s.Degraded)
		}
	})
}

// What could not be removed lives: then nothing holds the removal of dead containers.
func TestReapEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		w.deadPod("a")
		w.rt.FailStep("c-a", inventory.ErrUnavailable)
		w.up()
		w.pass(time.Second)
		if len(w.status().Degraded) == 0 {
			t.Fatal("nothing is reported")
		}
		w.rt.AddSandbox(container.Sandbox{ID: "s-a", Pod: pod("a"), Created: time.Now()})
		w.rt.AddContainer(container.Container{ID: "c-a", SandboxID: "s-a", Pod: pod("a"), Name: "app", State: container.StateRunning, Created: time.Now()})
		w.pass(time.Minute)
		if s := w.status(); len(s.Degraded) > 0 {
			t.Errorf("degraded: %q", s.Degraded)
		}
	})
}

// A layer that no snapshotter can resolve does not keep the agent degraded for others.
func TestTrackEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.rt.SetFaults(fake.Faults{Resolve: inventory.ErrUnsupported})
		w.add("i0", 40)
		w.up()
		w.pass(time.Minute)
		w.rt.SetFaults(fake.Faults{})
		w.kernel.mu.Lock()
		w.kernel.failTrack = bpf.ErrFull
		w.kernel.mu.Unlock()
		w.add("i1", 40)
		w.pass(time.Minute)
		if !slices.Contains(w.status().Degraded, "track") {
			t.Fatal("nothing is reported")
		}
		w.kernel.mu.Lock()
		w.kernel.failTrack = nil
		w.kernel.mu.Unlock()
		w.pass(2 * time.Minute)
		if s := w.status(); slices.Contains(s.Degraded, "track") {
			t.Errorf("degraded: %q", s.Degraded)
		}
	})
}

// A look that failed meanwhile does not hide when the disk's figure counts again.
func TestBeliefEndsAfterAFailedLook(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.fillStuck()
		w.pass(20 * time.Second)
		w.wantRemoved(ids[0], ids[1])
		w.rt.SetFaults(fake.Faults{Withheld: 1, Inventory: errors.New("busy")})
		w.rt.Tag(fake.CRINamespace, "i4", "again")
		w.pass(6 * time.Second)
		w.wantLogged(1, "level=WARN", "cannot read the node")
		w.rt.SetFaults(fake.Faults{Withheld: 1})
		w.pass(41 * time.Second)
		w.wantRemoved(ids[:4]...)
	})
}

// Images whose content is nowhere to be seen any more are still removed.
func TestContentThatIsNowhere(t *testing.T) {
	inWorld(t, func(w *world) {
		w.rt.SplitContent(contentDir, size, 0, 100000)
		w.disk.mount(contentDir, otherDev, "ext4", w.rt.ContentDisk)
		ids := w.five()
		w.wantWatermarks(fakeDev, otherDev)
		w.rt.SplitContent("/nowhere", size, 0, 100000)
		w.rt.CutEvents(errors.New("connection reset"))
		w.rt.ResumeEvents()
		w.pass(time.Minute)
		w.mountAt(kubeletDir, newPlainDisk(thirdDev, size))
		w.pass(10 * time.Minute)
		w.wantReady()
		w.wantWatermarks(fakeDev, thirdDev)
		w.fill(99)
		w.pass(time.Minute)
		if got := w.rt.Removed(); len(got) == 0 {
			t.Errorf("nothing of %q was removed", ids)
		}
	})
}
