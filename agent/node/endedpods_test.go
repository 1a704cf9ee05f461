package node

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// Ended pods give way when a filesystem is over its high threshold and no image can help.
func TestEndedPodsGiveWay(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{list: []kube.Pod{{UID: "uid-job", Ended: true}}}
		w.deadPod("job")
		w.up()
		w.pass(time.Minute)
		w.wantDid()
		w.fill(85) // no image at all: a hold
		w.pass(time.Minute)
		w.wantDid("c-job", "s-job")
	})
}

// Images that cannot be judged may do once they can.
func TestEndedPodsStayBesideABrokenSnapshotter(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{list: []kube.Pod{{UID: "uid-job", Ended: true}}}
		w.deadPod("job")
		ids := w.five()
		w.breakSnapshotterOf(ids)
		w.fill(85)
		w.pass(time.Hour)
		w.wantDid()
		if w.metric("ebb_node_reclaim_holding") != 0 {
			t.Error("a full disk is no alarm")
		}
		w.run("i0", "i1", "i2", "i3", "i4")
		w.rt.SetFaults(fake.Faults{})
		w.pass(2 * time.Minute)
		w.wantDid("c-job", "s-job")
	})
}

// What a snapshotter that cannot be read does not change: its images are in use anyway.
func TestEndedPodsGiveWayBesideABrokenSnapshotter(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{list: []kube.Pod{{UID: "uid-job", Ended: true}}}
		w.deadPod("job")
		ids := w.five()
		w.run("i0", "i1", "i2", "i3", "i4")
		w.breakSnapshotterOf(ids)
		w.pass(time.Minute)
		w.fill(85)
		w.pass(time.Hour)
		w.wantDid("c-job", "s-job")
		if w.metric("ebb_node_reclaim_holding") != 1 {
			t.Error("an alarm, although no image can help")
		}
	})
}

// A snapshotter breaks during a hold. Images that fell out of use meanwhile may be enough once it can be read.
func TestEndedPodsStayWhenASnapshotterBreaks(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.jobInAHold(85)
		w.pass(time.Minute)
		w.breakSnapshotterOf(ids[:3])
		w.end("i0", "i1", "i2")
		w.pass(6 * time.Minute)
		w.jobEnds()
		w.pass(time.Minute)
		w.wantDid()
		if w.metric("ebb_node_reclaim_holding") != 0 {
			t.Error("a full disk is no alarm")
		}
		w.rt.SetFaults(fake.Faults{})
		w.pass(6 * time.Minute)
		w.wantRemoved(ids[:3]...)
		w.wantDid()
	})
}

// jobInAHold has five images in use, a job whose container has ended, and so much other data that a hold begins.
func (w *world) jobInAHold(percent uint64) (images []string) {
	w.pods = &fakePods{list: []kube.Pod{{UID: "uid-job"}}}
	w.deadPod("job")
	images = w.five()
	w.run("i0", "i1", "i2", "i3", "i4")
	w.pass(time.Minute)
	w.fill(percent)
	w.pass(time.Second)
	w.wantLogged(1, "holding")
	return images
}

func (w *world) jobEnds() { w.pods.set(nil, kube.Pod{UID: "uid-job", Ended: true}) }

// jobEndsDuringARun has the job end at the first removal, and gives the agent time to notice.
func (w *world) jobEndsDuringARun() {
	var once sync.Once
	w.rt.SetFaults(fake.Faults{During: func(string) {
		once.Do(func() {
			w.jobEnds()
			time.Sleep(time.Second)
		})
	}})
}

// Images go first. If the disk is below its high threshold then, ended pods keep their containers, although images do not
// reach the low one.
func TestEndedPodsComeAfterImages(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{list: []kube.Pod{{UID: "uid-job"}}}
		w.deadPod("job")
		ids := w.five()
		w.pass(time.Minute)
		w.jobEndsDuringARun()
		w.fill(99) // with 20 percent of images
		w.pass(time.Minute)
		w.wantRemoved(ids...)
		w.wantLogged(1, "holding")
		w.wantDid()
	})
}

// The same when everything that may go goes once more, because the disk is fuller.
func TestEndedPodsComeAfterImagesAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.jobInAHold(84)
		w.pass(time.Minute)
		w.end("i0", "i1")
		w.pass(time.Minute)
		w.wantRemoved()
		w.jobEndsDuringARun()
		w.fill(86)
		w.pass(time.Minute)
		w.wantRemoved(ids[0], ids[1]) // 78 % then
		w.wantDid()
	})
}

// A hold of an earlier agent, or from before the latest events, may have ended.
func TestEndedPodsWaitForALook(t *testing.T) {
	for name, change := range map[string]func(w *world, change func()){
		"a restart": func(w *world, change func()) {
			w.down()
			change()
			w.rt.SetFaults(fake.Faults{Delay: time.Second})
			w.up()
		},
		"events":                   func(_ *world, change func()) { change() },
		"events soon after a look": func(w *world, change func()) { w.pass(2 * time.Second); change() },
		"events that nobody sends": func(w *world, change func()) {
			w.rt.CutEvents(errors.New("gone"))
			w.pass(6 * time.Minute)
			change()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				ids := w.jobInAHold(85)
				change(w, func() {
					w.jobEnds()
					w.end("i0", "i1", "i2")
				})
				w.pass(10 * time.Minute)
				if gone := w.rt.Removed(); len(gone) != 3 {
					t.Errorf("removed %v of %v", gone, ids)
				}
				w.wantDid()
			})
		})
	}
}

// The same for a pod that wants images no longer.
func TestEndedPodsWaitForImagesOfPods(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{list: []kube.Pod{{UID: "uid-job"}}}
		w.deadPod("job")
		ids := w.five()
		w.pods.set(nil, kube.Pod{UID: "uid-job"}, kube.Pod{UID: "uid-app", Images: ids[:3]})
		w.run("i3", "i4")
		w.pass(time.Minute)
		w.fill(85)
		w.pass(time.Minute)
		w.wantLogged(1, "holding")
		w.jobEnds()
		w.pass(10 * time.Minute)
		w.wantRemoved(ids[:3]...)
		w.wantDid()
	})
}

// Others have freed so much that images are enough now.
func TestEndedPodsWaitForEnoughImages(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.jobInAHold(95)
		w.pass(time.Minute)
		w.end("i0", "i1", "i2")
		w.pass(time.Minute)
		w.wantRemoved() // 83 % without them
		w.others(86)
		w.jobEnds()
		w.pass(10 * time.Minute)
		w.wantRemoved(ids[:3]...)
		w.wantDid()
	})
}

// Events without a pause, and lists that take longer than those leave time for, do not keep ended pods for ever.
func TestEndedPodsGiveWayBesideEvents(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{list: []kube.Pod{{UID: "uid-job"}}}
		w.deadPod("job")
		w.five()
		w.run("i0", "i1", "i2", "i3", "i4")
		w.rt.SetFaults(fake.Faults{Delay: 3 * time.Second})
		w.pass(time.Minute)
		w.fill(85)
		w.pass(time.Minute)
		w.wantLogged(1, "holding")
		w.jobEnds()
		for n := range 200 {
			w.rt.Tag(fake.CRINamespace, "i4", fmt.Sprint("t", n))
			w.pass(300 * time.Millisecond)
		}
		w.wantDid("c-job", "s-job")
	})
}

// What an ended pod left behind is tried again when the log announces it, whatever else happens meanwhile.
func TestEndedPodsAreTriedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{list: []kube.Pod{{UID: "uid-job", Ended: true}, {UID: "uid-web"}}}
		w.deadPod("job")
		w.rt.AddSandbox(container.Sandbox{ID: "s-web", Pod: pod("web")})
		w.rt.FailStep("c-job", errors.New("device busy"))
		w.up()
		w.fill(85)
		w.pass(10 * time.Second)
		w.wantLogged(1, "could not be removed", "id=c-job", "next=30s")
		w.rt.AddContainer(w.exited("c-web", "web", 0))
		w.rt.Exit("c-web")
		w.pass(time.Second)
		if n := w.metric("ebb_node_workloads", "container", "removal_failed"); n != 1 {
			t.Errorf("%v removals have failed", n)
		}
		w.rt.FailStep("c-job", nil)
		w.pass(30 * time.Second)
		w.wantDid("c-job", "s-job")
	})
}

// A pod that ends while images that fell out of use end the hold keeps its containers: images are enough.
func TestEndedPodsStayWhileImagesGo(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.jobInAHold(85)
		w.pass(time.Minute)
		w.jobEndsDuringARun()
		w.end("i0", "i1", "i2")
		w.pass(time.Minute)
		w.wantRemoved(ids[:3]...)
		w.wantDid()
	})
}

// On btrfs an exact reading commits the filesystem. Containers that come and go during a hold do not ask for one.
func TestHoldsWithoutEndedPodsCommitNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.disk.kind = "btrfs"
		w.pods = &fakePods{list: []kube.Pod{{UID: "uid-job", Ended: true}, {UID: "uid-web"}}}
		w.five()
		w.run("i0", "i1", "i2", "i3", "i4")
		w.rt.AddSandbox(container.Sandbox{ID: "s-web", Pod: pod("web")})
		w.pass(time.Minute)
		w.fill(99)
		w.pass(time.Minute)
		w.wantLogged(1, "holding")
		commits := func(change func(n int)) int {
			before := w.disk.settled
			for n := range 100 {
				change(n)
				w.pass(200 * time.Millisecond)
			}
			return w.disk.settled - before
		}
		quiet := commits(func(int) {})
		loud := commits(func(n int) {
			w.rt.AddContainer(w.exited(fmt.Sprintf("c%02d", n), "web", uint32(n)))
			w.rt.Exit(fmt.Sprintf("c%02d", n))
		})
		if len(w.did()) < 50 || loud > quiet+5 {
			t.Errorf("%d containers removed; %d commits, %d without", len(w.did()), loud, quiet)
		}
	})
}

// Others have freed the space since. No event reports it, and no look at the images need have noticed.
func TestEndedPodsStayWithoutNeed(t *testing.T) {
	for name, fill := range map[string]func(*world, *plainDisk, uint64){
		"a hold whose look fails": func(w *world, _ *plainDisk, percent uint64) {
			w.fill(percent)
			w.pass(time.Second)
			w.rt.SetFaults(fake.Faults{Inventory: errors.New("busy")})
		},
		"no image is on it": func(w *world, p *plainDisk, percent uint64) { w.fillPlain(p, percent) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				kubelet := newPlainDisk(otherDev, 100*mib)
				w.mountAt(kubeletDir, kubelet)
				w.pods = &fakePods{list: []kube.Pod{{UID: "uid-job"}}}
				w.deadPod("job")
				w.up()
				w.pass(time.Minute)
				fill(w, kubelet, 90)
				w.pass(time.Minute)
				w.others(50)
				kubelet.available.Store(kubelet.capacity)
				w.pods.set(nil, kube.Pod{UID: "uid-job", Ended: true})
				w.pass(10 * time.Minute)
				w.wantDid()
				w.rt.SetFaults(fake.Faults{})
				fill(w, kubelet, 90)
				w.pass(time.Minute)
				w.wantDid("c-job", "s-job")
			})
		})
	}
}

// On btrfs, statfs does not show for a while what others have freed.
func TestEndedPodsStayOnADiskThatLags(t *testing.T) {
	inWorld(t, func(w *world) {
		w.disk.kind = "btrfs"
		w.pods = &fakePods{list: []kube.Pod{{UID: "uid-job"}}}
		w.deadPod("job")
		w.up()
		w.fill(90)
		w.pass(time.Minute)
		w.rt.SetFaults(fake.Faults{Inventory: errors.New("busy")})
		w.others(50)
		w.disk.mu.Lock()
		w.disk.written = -int64(size * 40 / 100)
		w.disk.mu.Unlock()
		w.pods.set(nil, kube.Pod{UID: "uid-job", Ended: true})
		w.pass(time.Second)
		w.wantDid()
	})
}
