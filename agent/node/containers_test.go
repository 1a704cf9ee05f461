package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/workloads"
	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// fakePods is a source of pods that answers as a test wants, or not at all, or with two
// different answers one after the other. sourcetest defines what else it promises.
type fakePods struct {
	mu      sync.Mutex
	list    []kube.Pod
	err     error
	notGone map[string]bool // by UID: there after all when asked again
	goneErr error
	passes  int       // of removals
	heard   time.Time // zero: each answer is new
	changed chan<- struct{}
	turn    chan struct{} // closed half a second after somebody was in a hurry; nil: nothing waits
}

// Hurry has the answer, which waits for its turn, come soon.
func (p *fakePods) Hurry() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	turn := p.turn
	if p.turn = nil; turn != nil {
		time.AfterFunc(time.Second/2, func() {
			p.set(nil, p.list...)
			close(turn)
		})
	}
	return turn
}

func (p *fakePods) Run(ctx context.Context, changed chan<- struct{}) error {
	p.mu.Lock()
	p.changed = changed
	p.mu.Unlock()
	<-ctx.Done()
	return nil
}

func (p *fakePods) Pods(context.Context) (kube.Pods, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return kube.Pods{}, p.err
	}
	list := slices.SortedFunc(slices.Values(p.list), func(a, b kube.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return kube.Pods{List: list, StaticKnown: true, Heard: p.heard}, nil
}

// hear has the other side say something.
func (p *fakePods) hear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = time.Now()
}

func (p *fakePods) Pass() kube.Pass {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passes++
	return p
}

func (p *fakePods) Gone(_ context.Context, _, _, uid string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := cmp.Or(p.err, p.goneErr); err != nil {
		return false, err
	}
	there := slices.ContainsFunc(p.list, func(pod kube.Pod) bool { return pod.UID == uid })
	return !there && !p.notGone[uid], nil
}

// set replaces the pods and reports the change.
func (p *fakePods) set(err error, list ...kube.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list, p.err = list, err
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

func pod(name string) container.PodID {
	return container.PodID{UID: "uid-" + name, Namespace: "default", Name: name}
}

// deadPod is a sandbox that is not ready with one exited container.
func (w *world) deadPod(name string) {
	w.rt.AddSandbox(container.Sandbox{ID: "s-" + name, Pod: pod(name), NotReady: true, Created: time.Now().Add(-time.Hour)})
	w.rt.AddContainer(w.exited("c-"+name, name, 0))
}

func (w *world) exited(id, podName string, attempt uint32) container.Container {
	return container.Container{
		ID: id, SandboxID: "s-" + podName, Pod: pod(podName), Name: "app", Attempt: attempt,
		State: container.StateExited, Created: time.Now().Add(-time.Hour), Finished: time.Now(),
	}
}

// did are the IDs of what was removed, in order.
func (w *world) did() (ids []string) {
	for _, s := range w.rt.Steps() {
		switch s.Action {
		case container.RemoveContainer:
			ids = append(ids, s.ContainerID)
		case container.RemoveSandbox:
			ids = append(ids, s.SandboxID)
		}
	}
	return ids
}

func (w *world) wantDid(want ...string) {
	w.t.Helper()
	if got := w.did(); !slices.Equal(got, want) {
		w.t.Errorf("removed %q, want %q", got, want)
	}
}

func TestDeadContainersGoByTheLimits(t *testing.T) {
	inWorld(t, func(w *world) {
		for n := range 3 {
			c := w.exited(fmt.Sprint("c", n), "web", uint32(n))
			c.Created = c.Created.Add(time.Duration(n) * time.Minute)
			w.rt.AddContainer(c)
		}
		w.rt.AddSandbox(container.Sandbox{ID: "s-web", Pod: pod("web")})
		w.up()
		w.wantDid("c0", "c1")
		if n := w.metric("ebb_node_workloads_removed_total", "container", "max_per_pod_container"); n != 2 {
			t.Errorf("%v counted", n)
		}
		if n := w.metric("ebb_node_workloads", "container", "within_limits"); n != 1 {
			t.Errorf("%v shown as kept", n)
		}
		w.wantLogged(2, "container removed", "reason=max_per_pod_container")
	})
}

// With a container go its log and what that was rotated to, and no other's: 7.log is of a container that the
// kubelet removed when all of the pod restarted (RestartAllContainers), which keeps its log. As long as the log
// cannot go the container stays, as the kubelet has it.
func TestLogsOfContainersThatGo(t *testing.T) {
	for name, c := range map[string]struct {
		logs    bool
		mounted bool // the directory of the container is a link: nothing in it is removed
		left    []string
		did     []string
	}{
		"on":                {true, false, []string{"2.log", "2.log.20000101-000000.gz", "7.log"}, []string{"c0", "c1"}},
		"off":               {false, false, []string{"0.log", "0.log.20000101-000000", "1.log", "2.log", "2.log.20000101-000000.gz", "7.log"}, []string{"c0", "c1"}},
		"a link on the way": {true, true, []string{"0.log", "0.log.20000101-000000", "1.log", "2.log", "2.log.20000101-000000.gz", "7.log"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			logs, at := filepath.Join(dir, "pods"), filepath.Join(dir, "pods", "default_web_uid-web", "app")
			if c.mounted {
				at = filepath.Join(dir, "elsewhere")
			}
			if err := errors.Join(os.MkdirAll(at, 0o755), os.MkdirAll(filepath.Join(logs, "default_web_uid-web"), 0o755)); err != nil {
				t.Fatal(err)
			}
			if c.mounted {
				if err := os.Symlink(at, filepath.Join(logs, "default_web_uid-web", "app")); err != nil {
					t.Fatal(err)
				}
			}
			for _, file := range []string{"0.log", "0.log.20000101-000000", "1.log", "2.log", "2.log.20000101-000000.gz", "7.log"} {
				if err := os.WriteFile(filepath.Join(at, file), []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			inWorld(t, func(w *world) {
				w.cfg.Containers.Logs, w.cfg.Containers.LogLinks, w.cfg.Filesystems.PodLogs.Path = c.logs, "", logs
				for n := range 3 {
					dead := w.exited(fmt.Sprint("c", n), "web", uint32(n))
					dead.Created = dead.Created.Add(time.Duration(n) * time.Minute)
					w.rt.AddContainer(dead)
					w.rt.SetLogPath(dead.ID, filepath.Join(logs, "default_web_uid-web", "app", fmt.Sprint(n, ".log")))
				}
				w.rt.AddSandbox(container.Sandbox{ID: "s-web", Pod: pod("web")})
				w.up()
				w.pass(time.Second)
				w.wantDid(c.did...)
				entries, err := os.ReadDir(at)
				var left []string
				for _, e := range entries {
					left = append(left, e.Name())
				}
				if err != nil || !slices.Equal(left, c.left) {
					t.Errorf("left are %q (%v), want %q", left, err, c.left)
				}
			})
		})
	}
}

// A source of pods that was silent need not signal that it answers again.
func TestWorkloadsAskASilentSourceAgain(t *testing.T) {
	for name, silent := range map[string]func(*fakePods, error){
		"pods are listed":    func(p *fakePods, err error) { p.err = err },
		"before the removal": func(p *fakePods, err error) { p.goneErr = err },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.cfg.ReconcileInterval = config.Duration(24 * time.Hour)
				w.pods = &fakePods{}
				set := func(err error) {
					w.pods.mu.Lock()
					defer w.pods.mu.Unlock()
					silent(w.pods, err)
				}
				set(errSilent)
				w.deadPod("gone")
				w.up()
				w.pass(10 * time.Second)
				w.wantDid()
				set(nil)
				w.pass(15 * time.Second)
				w.wantDid("c-gone", "s-gone")

				set(errSilent)
				w.deadPod("later")
				w.rt.Exit("c-later")
				wakes := w.metric("ebb_node_timer_wakeups_total")
				w.pass(time.Hour)
				if n := w.metric("ebb_node_timer_wakeups_total") - wakes; n > 24 { // with back-off
					t.Errorf("%v wake-ups in an hour", n)
				}
				w.wantDid("c-gone", "s-gone")
			})
		})
	}
}

// An exit is acted on when its time comes, and nothing is polled before.
func TestExitIsActedOnWhenMinAgeEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Containers.MinAge = config.Duration(10 * time.Minute)
		w.cfg.Containers.MaxPerPodContainer = 0
		w.cfg.Containers.AgeFrom = config.AgeFromTermination
		w.cfg.ReconcileInterval = config.Duration(24 * time.Hour)
		c := w.exited("c", "web", 0)
		c.State = container.StateRunning
		w.rt.AddContainer(c)
		w.rt.AddSandbox(container.Sandbox{ID: "s-web", Pod: pod("web")})
		w.up()
		w.pass(time.Minute)
		w.rt.Exit("c")
		w.pass(10*time.Minute - time.Millisecond)
		w.wantDid()
		w.pass(time.Second)
		w.wantDid("c")
		if n := w.metric("ebb_node_timer_wakeups_total"); n > 8 { // two looks each after the start, the exit and the removal; the end of the age; and a rest
			t.Errorf("%v wake-ups for one exit", n)
		}
	})
}

// containerd reports an exit before the CRI knows it.
func TestExitThatTheCRISeesLate(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Containers.MaxPerPodContainer = 0
		w.cfg.ReconcileInterval = config.Duration(24 * time.Hour)
		c := w.exited("c", "web", 0)
		c.State = container.StateRunning
		w.rt.AddContainer(c)
		w.rt.AddSandbox(container.Sandbox{ID: "s-web", Pod: pod("web")})
		w.up()
		w.rt.ExitUnseen("c")
		w.pass(200 * time.Millisecond)
		w.wantDid()
		w.rt.Exit("c")
		w.pass(time.Second)
		w.wantDid("c")
		// One that never ends is not waited for for ever.
		c.ID, c.State = "d", container.StateRunning
		w.rt.AddContainer(c)
		w.rt.ExitUnseen("d")
		w.pass(10 * time.Minute)
		before := w.metric("ebb_node_timer_wakeups_total")
		w.pass(time.Hour)
		if n := w.metric("ebb_node_timer_wakeups_total") - before; n > 0 {
			t.Errorf("woke %v times for a container that runs", n)
		}
	})
}

func TestPodsThatAreGone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{list: []kube.Pod{{UID: "uid-a"}, {UID: "uid-b"}}}
		w.deadPod("a")
		w.deadPod("b")
		w.up()
		w.wantDid()
		w.pods.set(nil, kube.Pod{UID: "uid-b"})
		w.pass(time.Second)
		w.wantDid("c-a", "s-a")
		if n := w.metric("ebb_node_workloads_removed_total", "pod_gone"); n != 2 {
			t.Errorf("%v counted", n)
		}
	})
}

// The kubelet does not report when a pod that was being deleted is gone.
func TestPodIsGoneWithoutNews(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.ReconcileInterval = config.Duration(24 * time.Hour)
		w.pods = &fakePods{list: []kube.Pod{{UID: "uid-a", Deleting: true}}}
		w.deadPod("a")
		w.up()
		w.pass(2 * time.Second)
		w.wantDid()
		w.pods.mu.Lock()
		w.pods.list = nil
		w.pods.mu.Unlock()
		w.pass(3 * time.Second)
		w.wantDid("c-a", "s-a")
		before := w.metric("ebb_node_timer_wakeups_total")
		w.pass(12 * time.Hour)
		if n := w.metric("ebb_node_timer_wakeups_total") - before; n > 3 {
			t.Errorf("woke %v times with nothing to do", n)
		}
	})
}

// While the source cannot be reached nothing is taken for gone, and its earlier
// answers do not count.
func TestPodsAreNotKnown(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{list: []kube.Pod{{UID: "uid-a"}}}
		w.deadPod("a")
		w.up()
		w.pods.set(errors.New("connection refused"))
		w.pass(time.Hour)
		w.wantDid()
		if n := w.metric("ebb_node_pods_source_up"); n != 0 {
			t.Error("the pods count as known")
		}
		w.wantLogged(1, "level=WARN", "none is treated as gone", "connection refused")
		var e workloads.Explanation
		if w.get("/containers", &e); !strings.Contains(e.PodsError, "connection refused") {
			t.Errorf("/containers reports %+v", e)
		}
		w.pods.set(nil)
		w.pass(time.Second)
		w.wantDid("c-a", "s-a")
	})
}

// The source is asked again right before the removal; in doubt things stay.
func TestPodTurnsUpBeforeTheRemoval(t *testing.T) {
	for name, doubt := range map[string]*fakePods{
		"there again": {notGone: map[string]bool{"uid-a": true}},
		"no answer":   {goneErr: errors.New("timeout")},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.pods = doubt
				w.deadPod("a")
				w.up()
				w.pass(time.Second)
				w.wantDid()
				if n := w.metric("ebb_node_workload_removals_skipped_total", "container"); n == 0 {
					t.Error("not counted as spared")
				}
			})
		})
	}
}

// However many pods are gone, all that is done about them together is one pass at the
// source.
func TestOnePassForManyPods(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		for i := range 50 {
			w.deadPod(fmt.Sprint("pod-", i))
		}
		w.up()
		w.pass(time.Second)
		if n := len(w.did()); n != 100 {
			t.Errorf("%d removals", n)
		}
		w.pods.mu.Lock()
		defer w.pods.mu.Unlock()
		if w.pods.passes > 2 { // one of each batch
			t.Errorf("%d passes", w.pods.passes)
		}
	})
}

// A sandbox that hangs does not hold up others, nor the disk.
func TestHangingSandbox(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		for _, name := range []string{"a", "b", "c"} {
			w.deadPod(name)
		}
		w.rt.Hang("s-a")
		ids := w.five()
		w.pass(time.Second)
		got := w.did()
		slices.Sort(got)
		if !slices.Equal(got, []string{"c-a", "c-b", "c-c", "s-b", "s-c"}) {
			t.Errorf("removed %q", got)
		}
		w.fill(81)
		w.pass(time.Second)
		w.wantRemoved(ids[0], ids[1])
	})
}

// What fails is left alone for a while, and what rests on it, too.
func TestFailedRemovals(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Containers.MaxPerPodContainer = 0
		w.pods = &fakePods{}
		w.deadPod("a")
		w.deadPod("b")
		w.rt.FailStep("c-a", errors.New("device busy"))
		w.up()
		w.pass(10 * time.Second)
		w.wantDid("c-b", "s-b")
		w.wantLogged(1, "could not be removed", "device busy", "id=c-a")
		if n := w.metric("ebb_node_workload_removal_failures_total", "container"); n != 1 {
			t.Errorf("%v failures counted", n)
		}
		w.rt.FailStep("c-a", nil)
		w.pass(time.Minute)
		w.wantDid("c-b", "s-b", "c-a", "s-a")
	})
}

// What failed for lack of room is tried again as soon as another removal succeeds, however long the disk was
// full.
func TestRemovalsAfterAFullDisk(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		w.deadPod("a")
		w.rt.FailStep("c-a", inventory.ErrNoSpace)
		w.up()
		w.pass(4 * time.Hour) // the next try would be an hour after the latest
		w.rt.FailStep("c-a", nil)
		w.deadPod("b")
		w.pass(10 * time.Second)
		w.wantDid("c-b", "s-b", "c-a", "s-a")
	})
}

// A runtime that went away is nobody's fault.
func TestRuntimeGoesAwayWhileReaping(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		w.deadPod("a")
		w.rt.FailStep("c-a", inventory.ErrUnavailable)
		w.up()
		w.pass(time.Second)
		w.rt.FailStep("c-a", nil)
		w.pass(20 * time.Second)
		w.wantDid("c-a", "s-a")
		if n := w.metric("ebb_node_workload_removal_failures_total"); n != 0 {
			t.Errorf("%v failures counted", n)
		}
	})
}

func TestWorkloadsCannotBeListed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		w.deadPod("a")
		w.rt.FailWorkloads(errors.New("plugin not ready"))
		w.up()
		w.pass(time.Minute)
		w.wantDid()
		w.wantLogged(1, "level=WARN", "plugin not ready")
		w.rt.FailWorkloads(nil)
		w.pass(time.Minute)
		w.wantDid("c-a", "s-a")
	})
}

func TestObserveLeavesTheDead(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Mode = config.ModeObserve
		w.pods = &fakePods{}
		w.deadPod("a")
		w.up()
		w.pass(time.Hour)
		if steps := w.rt.Steps(); len(steps) > 0 {
			t.Errorf("did %v", steps)
		}
		w.wantLogged(1, "would remove container", "container=c-a", "reason=pod_gone")
	})
}

func TestRateLimit(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Containers.MaxRemovalsPerSecond = 2
		w.cfg.Containers.MaxPerPodContainer = 0
		w.rt.AddSandbox(container.Sandbox{ID: "s-web", Pod: pod("web")})
		for n := range 20 {
			w.rt.AddContainer(w.exited(fmt.Sprintf("c%02d", n), "web", uint32(n)))
		}
		w.up()
		w.pass(4900 * time.Millisecond)
		if n := len(w.did()); n < 8 || n > 11 {
			t.Errorf("%d removed in 5 s", n)
		}
	})
}

func TestSwitchedOff(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Containers.Enabled = false
		w.pods = &fakePods{}
		w.deadPod("a")
		w.up()
		w.rt.ExitUnseen("c-a")
		w.pass(time.Hour)
		w.wantDid()
	})
}

// An image that a pod waits for is in use, whether its container exists or not,
// and also while the source cannot be reached any more.
func TestWantedImagesStay(t *testing.T) {
	inWorld(t, func(w *world) {
		name := "docker.io/library/app:1"
		id := w.add(name, 200)
		w.pods = &fakePods{list: []kube.Pod{
			{UID: "1", Namespace: "default", Name: "new", Images: []string{"app:1"}},
			{UID: "2", Namespace: "default", Name: "done", Ended: true, Images: []string{"other:1"}},
		}}
		other := w.add("docker.io/library/other:1", 100)
		w.pass(time.Second) // what comes after the latest answer would stay for that
		w.up()
		w.pods.set(errors.New("gone"))
		w.fill(90)
		w.pass(time.Second)
		w.wantRemoved(other)
		w.wantReason(id, image.KeptWanted)
		w.pods.set(nil)
		w.rt.Tag(fake.CRINamespace, name, "another:1") // an event
		w.pass(time.Minute)
		w.wantRemoved(other, id)
	})
}

// Logs of pods that are gone go, and nothing else; on a real filesystem.
func TestLogsOfPodsThatAreGone(t *testing.T) {
	dir := t.TempDir()
	logs, links := filepath.Join(dir, "pods"), filepath.Join(dir, "containers")
	old := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC) // a bubble's clock begins in 2000
	for _, name := range []string{"default_a_uid-a", "default_b_uid-b", "default_c_uid-c", "not-a-pod.d"} {
		if err := os.MkdirAll(filepath.Join(logs, name, "app"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(logs, name, "app", "0.log"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(logs, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(links, 0o755); err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(links, "a_default_app-"+strings.Repeat("a", 64)+".log")
	live := filepath.Join(links, "b_default_app-"+strings.Repeat("b", 64)+".log")
	for link, to := range map[string]string{dead: "default_gone_x", live: "default_b_uid-b"} {
		if err := os.Symlink(filepath.Join(logs, to, "app", "0.log"), link); err != nil {
			t.Fatal(err)
		}
	}
	inWorld(t, func(w *world) {
		w.cfg.Containers.Logs, w.cfg.Containers.LogLinks, w.cfg.Filesystems.PodLogs.Path = true, links, logs
		w.pods = &fakePods{list: []kube.Pod{{UID: "uid-b"}}}
		w.deadPod("c")
		w.rt.FailStep("s-c", errors.New("busy")) // keeps its logs
		w.up()
		w.pass(time.Second)
		for path, want := range map[string]bool{
			filepath.Join(logs, "default_a_uid-a"): false, filepath.Join(logs, "default_b_uid-b"): true,
			filepath.Join(logs, "default_c_uid-c"): true, filepath.Join(logs, "not-a-pod.d"): true, dead: false, live: true,
		} {
			if _, err := os.Lstat(path); (err == nil) != want {
				t.Errorf("%s: %v, want it there: %v", path, err, want)
			}
		}
		if n := w.metric("ebb_node_workloads_removed_total", "log_directory", "pod_gone"); n != 1 {
			t.Errorf("%v directories counted", n)
		}
		if n := w.metric("ebb_node_workloads_removed_total", "log_link", "dead_link"); n != 1 {
			t.Errorf("%v links counted", n)
		}
	})
}
