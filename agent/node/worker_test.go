package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-agent/ebb/agent/node/watermark"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// hung has the runtime not answer while names are away, until it returns.
func (w *world) hung(f func()) {
	w.t.Helper()
	reached, over := make(chan struct{}), make(chan struct{})
	w.rt.SetFaults(fake.Faults{During: func(string) {
		select {
		case <-reached:
		default:
			close(reached)
			<-over
		}
	}})
	w.fill(81)
	if w.kernel == nil {
		w.pass(2 * watermark.PollInterval)
	}
	select {
	case <-reached:
	default:
		w.t.Fatal("no names were taken away")
	}
	f()
	close(over)
	synctest.Wait()
}

// While the removal of an image hangs, the agent answers, hears of uses and of other
// filesystems, and removes dead containers.
func TestHungRemovalHoldsUpNothingElse(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		w.disk.mount("/var/lib/kubelet", otherDev, "ext4", func() image.Disk { return image.Disk{CapacityBytes: size, AvailableBytes: size} })
		ids := w.five()
		w.hung(func() {
			w.disk.mount("/var/lib/kubelet", otherDev, "ext4", func() image.Disk { return image.Disk{CapacityBytes: size, AvailableBytes: size / 100} })
			began := time.Now()
			if e := w.explain(); len(e.Images) != 5 || time.Since(began) != 0 {
				t.Errorf("%d images after %v", len(e.Images), time.Since(began))
			}
			w.kernel.wrote(otherDev, image.Disk{AvailableBytes: size}, image.Disk{AvailableBytes: size / 100})
			w.deadPod("a")
			w.use("i4")
			if used := w.image(ids[4]).LastUsed; used == nil || time.Since(*used) > 2*time.Second {
				t.Errorf("i4 was used at %v", used)
			}
			w.wantDid("c-a", "s-a")
			w.wantLogged(1, "filesystem reached its high threshold; no image is on it", "kubelet")
			if w.agent.health.notReady.Load() != nil {
				t.Error("not ready")
			}
		})
		w.pass(time.Second)
		w.wantRemoved(ids[0], ids[1])
	})
}

// slowToResolve takes a second to resolve a layer, as containerd does with a View that it has begun to make.
type slowToResolve struct {
	*fake.Runtime
	t       *testing.T
	resolve atomic.Bool
}

func (r *slowToResolve) ResolveLayer(ctx context.Context, l inventory.Layer) (inventory.LayerRoot, error) {
	r.resolve.Store(true)
	defer r.resolve.Store(false)
	time.Sleep(time.Second)
	return r.Runtime.ResolveLayer(ctx, l)
}

func (r *slowToResolve) Close() error {
	if r.resolve.Load() {
		r.t.Error("the connection is closed while a layer is resolved: its View and lease stay")
	}
	return r.Runtime.Close()
}

// The runtime's connection is closed once nothing uses it any more.
func TestConnectionIsClosedLast(t *testing.T) {
	inWorld(t, func(w *world) {
		slow := &slowToResolve{Runtime: w.rt, t: t}
		w.dial = func(context.Context) (Runtime, error) { return slow, nil }
		w.add("i", 40)
		w.up()
		if !slow.resolve.Load() {
			t.Fatal("no layer is being resolved")
		}
		w.down()
	})
}

// While dead containers cannot be listed, images go.
func TestHungListOfContainersHoldsUpNoImage(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		ids := w.five()
		over := make(chan struct{})
		w.rt.DelayWorkloads(over)
		w.deadPod("a")
		w.pass(time.Second)
		w.wantDid()
		w.fill(81)
		w.pass(100 * time.Millisecond)
		w.wantRemoved(ids[0], ids[1])
		close(over)
		w.pass(time.Second)
		w.wantDid("c-a", "s-a")
	})
}

// An exit that is reported while the CRI lists its containers is not forgotten, although the
// list was made before the container.
func TestExitDuringTheList(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		w.five()
		over := make(chan struct{})
		w.rt.DelayWorkloads(over)
		w.agent.monitor.Do(func() { w.agent.workloads.Soon(0) })
		w.pass(time.Second)
		w.rt.AddContainer(container.Container{ID: "c-a", SandboxID: "s-a", Pod: pod("a"), Name: "app", State: container.StateRunning})
		w.rt.ExitUnseen("c-a")
		synctest.Wait()
		close(over)
		synctest.Wait()
		if n := w.agent.workloads.Unnoted(); n != 1 {
			t.Errorf("%d exits are waited for", n)
		}
	})
}

// A crossing that a run answers is answered: nothing is listed for it after the run.
func TestCrossingDuringARun(t *testing.T) {
	lists := map[bool]int64{}
	for _, crosses := range []bool{false, true} {
		inWorld(t, func(w *world) {
			rt := newCounting(w)
			ids := w.five()
			w.pass(time.Minute)
			before := rt.inventories.Load()
			w.hung(func() {
				if crosses {
					w.kernel.crossings <- bpf.Crossing{Dev: fakeDev, BootNS: uint64(w.sinceBoot())}
					synctest.Wait()
				}
			})
			w.wantRemoved(ids[0], ids[1])
			lists[crosses] = rt.inventories.Load() - before
			w.fill(81) // there is a threshold again
			w.wantRemoved(ids[0], ids[1], ids[2], ids[3])
		})
	}
	if lists[true] != lists[false] {
		t.Errorf("listed %d times, %d without the crossing", lists[true], lists[false])
	}
}

// What is mounted during a run is followed after it.
func TestMountDuringARun(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		w.hung(func() {
			w.disk.mount("/", otherDev, "ext4", func() image.Disk { return image.Disk{CapacityBytes: size, AvailableBytes: size} })
			synctest.Wait()
			if f, _ := w.agent.reclaim.Target(); f.Dev != fakeDev {
				t.Errorf("the run goes on on %d", f.Dev)
			}
		})
		if f, _ := w.agent.reclaim.Target(); f.Dev != otherDev {
			t.Errorf("on %d", f.Dev)
		}
		if got := w.rt.Removed(); len(got) > 1 {
			t.Errorf("removed %q of %q on a filesystem that is empty", got, ids)
		}
	})
}

// Who ends the agent in the middle of a removal leaves no image without its names.
func TestEndedDuringARun(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		w.hung(func() {
			ended := make(chan struct{})
			go func() { w.down(); close(ended) }()
			synctest.Wait()
			select {
			case <-ended:
				t.Error("ended in the middle")
			default:
			}
		})
		synctest.Wait()
		w.wantRemoved()
		inv, err := w.rt.Inventory(context.Background())
		if err != nil || len(inv.Images) != len(ids) {
			t.Errorf("%d images have names, %v", len(inv.Images), err)
		}
	})
}

// A use that is noted while an image's names are away spares it, whoever brought it into the
// record: a question, which harvests the kernel's stamps, or an event.
func TestUseNotedDuringARun(t *testing.T) {
	for name, test := range map[string]struct {
		kernel bool
		use    func(*world, bpf.Key)
	}{
		"nobody asks": {true, func(w *world, key bpf.Key) { w.kernel.ran(key) }},
		"/images": {true, func(w *world, key bpf.Key) {
			w.kernel.ran(key)
			w.explain()
		}},
		"an event":                   {true, func(w *world, _ bpf.Key) { w.deliver(used("i0")) }},
		"an event, without programs": {false, func(w *world, _ bpf.Key) { w.deliver(used("i0")) }},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				if !test.kernel {
					w.kernel = nil
				}
				w.pods = &fakePods{}
				ids := w.five()
				for n := 1; n < 5; n++ { // i0 is the only one that may go
					w.rt.Run(fake.CRINamespace, fmt.Sprint("r", n), fmt.Sprint("i", n))
				}
				w.pass(time.Minute)
				key := w.keyOf(ids[0])
				w.hung(func() {
					time.Sleep(time.Second)
					test.use(w, key)
					synctest.Wait()
				})
				w.pass(200 * time.Millisecond)
				w.wantRemoved()
				w.wantLogged(1, "image kept by the last check", "used since the plan was made")
			})
		})
	}
}

// used is the event of a container that is made from an image, and is there no more when the
// runtime is asked.
func used(image string) inventory.Event {
	return inventory.Event{Kind: inventory.EventContainer, Namespace: fake.CRINamespace, Container: "short", Image: image, Used: true, At: time.Now()}
}

// deliver hands the agent an event.
func (w *world) deliver(e inventory.Event) {
	w.agent.in.events <- e
	w.agent.in.news <- struct{}{}
}

// Events are heard in their order, also where a look takes them.
func TestEventsAreHeardInOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		w.five()
		w.pass(time.Minute)
		w.agent.monitor.Do(func() {
			w.deliver(inventory.Event{Kind: inventory.EventDown, Err: errors.New("broke")})
			synctest.Wait() // the loop waits for the monitor
			w.deliver(inventory.Event{Kind: inventory.EventResync, At: time.Now()})
			w.agent.takeEvents()
		})
		w.pass(time.Second)
		if why := w.agent.health.notReady.Load(); why != nil || !w.agent.lastUse.HearsEvents() {
			t.Errorf("not ready: %v", *why)
		}
	})
}

// What a long run makes happen asks for no list after it.
func TestLongRunListsNoMore(t *testing.T) {
	lists := map[time.Duration]int64{}
	for _, takes := range []time.Duration{0, 3 * time.Second} {
		inWorld(t, func(w *world) {
			rt := newCounting(w)
			w.five()
			w.pass(time.Minute)
			before := rt.inventories.Load()
			w.hung(func() { w.pass(takes) })
			lists[takes] = rt.inventories.Load() - before
		})
	}
	if lists[0] != lists[3*time.Second] {
		t.Errorf("lists by how long the run took: %v", lists)
	}
}

// health asks /healthz, whose answer waits for nothing.
func (w *world) health() int {
	w.t.Helper()
	began, r := time.Now(), httptest.NewRecorder()
	w.agent.health.healthz(r, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/healthz", nil))
	if took := time.Since(began); took > 0 {
		w.t.Errorf("the answer took %v", took)
	}
	return r.Code
}

// wantDead has /healthz fail after a while, and no more once over is closed.
func (w *world) wantDead(over chan struct{}) {
	w.t.Helper()
	w.pass(deadAfter)
	if got := w.health(); got != http.StatusServiceUnavailable {
		w.t.Errorf("after more than %v: %d", deadAfter, got)
	}
	close(over)
	w.pass(time.Second)
	if got := w.health(); got != http.StatusOK {
		w.t.Errorf("afterwards: %d", got)
	}
}

// A loop that is stuck shows in /healthz after a while, and one at rest never.
func TestStuckLoop(t *testing.T) {
	inWorld(t, func(w *world) {
		w.five()
		w.pass(time.Hour) // without a sign of life: nothing happens
		if got := w.health(); got != http.StatusOK {
			t.Errorf("at rest: %d", got)
		}
		w.pass(time.Second)
		over := make(chan struct{})
		go w.agent.monitor.Do(func() { <-over })
		w.pass(time.Second)
		for range 3 {
			if got := w.health(); got != http.StatusOK {
				t.Errorf("while it is busy: %d", got)
			}
			w.pass(time.Minute)
		}
		w.wantDead(over)
	})
}

// A call that does not end shows in /healthz, whichever worker waits for it.
func TestHungWorker(t *testing.T) {
	inWorld(t, func(w *world) {
		w.five()
		over := make(chan struct{})
		w.rt.DelayWorkloads(over)
		w.agent.monitor.Do(func() { w.agent.workloads.Soon(0) })
		w.pass(time.Minute)
		if got := w.health(); got != http.StatusOK {
			t.Errorf("after a minute: %d", got)
		}
		w.wantDead(over)
	})
}

// A disk that takes long to answer does not keep anything else from its turn: not at the start, when the
// recorded layers are looked for, and not after a mount or a crossing.
func TestSlowDiskHoldsNothingUp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.five()
		w.pass(time.Minute)
		w.down()
		var held atomic.Int32
		w.disk.asked = func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if w.agent.monitor.DoWithin(ctx, func() {}) != nil {
				held.Add(1)
			}
		}
		w.up()
		w.pass(time.Minute)
		w.disk.mount("/mnt", 7, "ext4", w.rt.Disk)
		w.pass(time.Minute)
		w.fill(81)
		w.pass(time.Minute)
		if n := held.Load(); n > 0 {
			t.Errorf("the lock was held during %d readings", n)
		}
	})
}
