package containerd_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"

	"github.com/ebb-agent/ebb/runtime/containerd"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/tools/node"
)

// TestEnds: the time a container ended is reported for as long as it lies dead, to a new
// connection, too; by the CRI of its own, by the task of others. One whose task was
// deleted, and a sandbox, may go on.
func TestEnds(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		r := connect(t, h.Node)
		id := h.Import(t, node.CRINamespace, Image{Name: "ends.test/app:1", Runnable: true})
		begun := time.Now()
		pod, err := h.Node.RunPod(t.Context(), node.PodSpec{Name: "ends", Containers: []node.PodContainer{
			{Name: "c", Image: "ends.test/app:1", Command: []string{"sleep", "600"}}}})
		must(t, "run pod", err)
		t.Cleanup(func() { must(t, "remove pod", pod.Remove(context.WithoutCancel(t.Context()))) })
		cri := pod.Containers["c"]
		h.Run(t, node.CRINamespace, "plain", "ends.test/app:1")
		for _, c := range []string{cri, "plain", pod.ID} {
			if at := containerOf(t, r, c).Ended; !at.IsZero() {
				t.Errorf("container %s runs, and has ended at %v", c, at)
			}
		}
		h.EndContainer(t, cri)
		h.Stop(t, node.CRINamespace, "plain")
		wantEnded(t, r, cri)
		wantEnded(t, r, "plain")
		if find(t, r, id).InUse {
			t.Error("the image is in use by the dead")
		}
		ended := time.Now()
		for _, c := range []string{cri, "plain"} {
			at := containerOf(t, r, c).Ended
			if at.Before(begun) || at.After(ended) {
				t.Errorf("container %s ended at %v, between %v and %v", c, at, begun, ended)
			}
			if again := containerOf(t, connect(t, h.Node), c).Ended; !again.Equal(at) {
				t.Errorf("container %s ended at %v, and at %v", c, at, again)
			}
		}
		must(t, "stop pod", pod.Stop(t.Context()))
		plain, err := h.Client().LoadContainer(h.in(t, node.CRINamespace), "plain")
		must(t, "load container", err)
		task, err := plain.Task(h.in(t, node.CRINamespace), nil)
		must(t, "load task", err)
		_, err = task.Delete(h.in(t, node.CRINamespace))
		must(t, "delete task", err)
		for _, c := range []string{"plain", pod.ID} {
			if at := containerOf(t, r, c).Ended; !at.IsZero() {
				t.Errorf("nobody knows when container %s ended, but at %v", c, at)
			}
		}
		h.Delete(t, node.CRINamespace, "plain")
	})
}

// TestEndBesideItsRemoval: while the CRI removes a dead container, containerd lists it and the CRI may not
// any more. Its image is not in use, and its end stays known: from an inventory, or to whoever asks before
// the removal.
func TestEndBesideItsRemoval(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		id := h.Import(t, node.CRINamespace, Image{Name: "ends.test/removed:1", Runnable: true})
		for name, ask := range map[string]func(r *containerd.Runtime, c string) time.Time{
			"listed": func(r *containerd.Runtime, c string) time.Time { return wantEnded(t, r, c) },
			"asked": func(r *containerd.Runtime, c string) time.Time {
				return awaitEnd(t, c, func() time.Time {
					s, err := r.ContainerNow(t.Context(), c)
					must(t, "ask", err)
					return s.Finished
				})
			},
			"unknown": func(*containerd.Runtime, string) time.Time { return time.Time{} },
		} {
			r := connect(t, h.Node)
			pod, err := h.Node.RunPod(t.Context(), node.PodSpec{Name: "removed-" + name, Containers: []node.PodContainer{
				{Name: "c", Image: "ends.test/removed:1", Command: []string{"sleep", "600"}}}})
			must(t, "run pod", err)
			c := pod.Containers["c"]
			h.EndContainer(t, c)
			ended := ask(r, c)
			in := h.in(t, node.CRINamespace)
			record, err := h.Client().ContainerService().Get(in, c)
			must(t, "read the record", err)
			must(t, "remove pod", pod.Remove(t.Context()))
			_, err = h.Client().ContainerService().Create(in, record) // as containerd listed it a moment ago
			must(t, "put the record back", err)
			for range 2 {
				if at := containerOf(t, r, c).Ended; !at.Equal(ended) {
					t.Errorf("%s: it ended at %v, not at %v", name, at, ended)
				}
				if find(t, r, id).InUse {
					t.Errorf("%s: the image is in use by a container that is being removed", name)
				}
			}
			must(t, "delete the record", h.Client().ContainerService().Delete(in, c))
		}
	})
}

// TestEndBeforeARemoval: whoever did not hear when a container of the CRI ended, because the stream was
// broken, hears it when the container is removed.
func TestEndBeforeARemoval(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		h.Import(t, node.CRINamespace, Image{Name: "ends.test/gap:1", Runnable: true})
		r := connect(t, h.Node)
		pod, err := h.Node.RunPod(t.Context(), node.PodSpec{Name: "gap", Containers: []node.PodContainer{
			{Name: "c", Image: "ends.test/gap:1", Command: []string{"sleep", "600"}}}})
		must(t, "run pod", err)
		c := pod.Containers["c"]
		h.EndContainer(t, c)
		ended := wantEnded(t, r, c)
		hear := watch(t, r)
		hear("the stream is back", func(e inventory.Event) bool { return e.Kind == inventory.EventResync })
		must(t, "remove pod", pod.Remove(t.Context()))
		var at time.Time
		hear("it is removed", func(e inventory.Event) bool {
			if e.Container == c && e.Kind == inventory.EventTask && e.Ended && e.Used {
				at = e.At
			}
			return e.Container == c && e.Kind == inventory.EventContainer
		})
		if !at.Equal(ended) {
			t.Errorf("it ended at %v, and the event has %v", ended, at)
		}
	})
}

// TestEndOutlivesItsTask: whoever watches knows the end of a container whose task was deleted
// since, until a task begins anew in it. Containerd 2 sometimes reports neither the exit nor the
// deletion of a task that is killed by it: its shim ends before it has sent them.
func TestEndOutlivesItsTask(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		r := connect(t, h.Node)
		hear := watch(t, r)
		hear("the stream is connected", func(e inventory.Event) bool { return e.Kind == inventory.EventResync })
		id := h.Import(t, node.CRINamespace, Image{Name: "ends.test/task:1", Runnable: true})
		h.Run(t, node.CRINamespace, "plain", "ends.test/task:1")
		hear("it began", func(e inventory.Event) bool {
			return e.Kind == inventory.EventTask && e.Container == "plain" && !e.Ended
		})
		begun := time.Now()
		in := h.in(t, node.CRINamespace)
		plain, err := h.Client().LoadContainer(in, "plain")
		must(t, "load container", err)
		task, err := plain.Task(in, nil)
		must(t, "load task", err)
		_, err = task.Delete(in, client.WithProcessKill)
		must(t, "delete task", err)
		if at := wantEnded(t, r, "plain"); at.Before(begun) || at.After(time.Now()) {
			t.Errorf("it ended at %v, after %v", at, begun)
		}
		if find(t, r, id).InUse {
			t.Error("the image is in use by a container without a task")
		}
		task, err = plain.NewTask(in, cio.NullIO)
		must(t, "make a task", err)
		must(t, "start it", task.Start(in))
		hear("it began again", func(e inventory.Event) bool {
			return e.Kind == inventory.EventTask && e.Container == "plain" && !e.Ended
		})
		if at := containerOf(t, r, "plain").Ended; !at.IsZero() {
			t.Errorf("it runs again, and has ended at %v", at)
		}
		h.Delete(t, node.CRINamespace, "plain")
	})
}

// TestEndsBesideAHangingShim: without an answer no container has ended, and no image is used just now: it
// would count as used at each look. Nothing is held up for long.
func TestEndsBesideAHangingShim(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		r := connect(t, h.Node)
		h.Import(t, node.CRINamespace, Image{Name: "ends.test/app:1", Runnable: true})
		other := h.Import(t, node.CRINamespace, Image{Name: "ends.test/other:1", Runnable: true, Variant: "2",
			Layers: []Layer{{Seed: "ends-other", Bytes: 1 << 10}}})
		h.Run(t, node.CRINamespace, "hangs", "ends.test/app:1")
		h.Run(t, node.CRINamespace, "dead", "ends.test/other:1")
		h.Stop(t, node.CRINamespace, "dead")
		wantEnded(t, r, "dead")
		shim := h.shimOf(t, "hangs")
		must(t, "stop the shim", syscall.Kill(shim, syscall.SIGSTOP))
		goOn := func() { must(t, "go on", syscall.Kill(shim, syscall.SIGCONT)) }
		at := containerOf(t, r, "hangs").Ended // which would not come, before the shim goes on
		dead := find(t, r, other)
		soon, cancel := context.WithTimeout(h.in(t, node.CRINamespace), 50*time.Millisecond)
		_, err := r.UnlistedEnd(soon, node.CRINamespace, "hangs")
		cancel()
		goOn()
		if err == nil {
			t.Error("a shim that hangs has answered")
		}
		if !at.IsZero() {
			t.Errorf("ended at %v", at)
		}
		if dead.InUse || len(dead.UsedBy) == 0 {
			t.Errorf("the image of the dead container is in use: %v, by %q", dead.InUse, dead.UsedBy)
		}
		h.Delete(t, node.CRINamespace, "hangs")
		h.Delete(t, node.CRINamespace, "dead")
	})
}

// shimOf is the process that the container's was started by.
func (h *realNode) shimOf(t *testing.T, id string) int {
	t.Helper()
	ctx := h.in(t, node.CRINamespace)
	c, err := h.Client().LoadContainer(ctx, id)
	must(t, "load container", err)
	task, err := c.Task(ctx, nil)
	must(t, "load task", err)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", task.Pid()))
	must(t, "read status", err)
	_, after, _ := strings.Cut(string(status), "\nPPid:")
	line, _, _ := strings.Cut(after, "\n")
	shim, err := strconv.Atoi(strings.TrimSpace(line))
	must(t, "parent of "+id, err)
	return shim
}

// watch has the events sent, and returns what waits for one.
func watch(t *testing.T, r *containerd.Runtime) (hear func(what string, is func(inventory.Event) bool)) {
	ctx, cancel := context.WithCancel(t.Context())
	events, over := make(chan inventory.Event, 1000), make(chan struct{})
	go func() { defer close(over); _ = r.Watch(ctx, events) }()
	t.Cleanup(func() { cancel(); <-over })
	return func(what string, is func(inventory.Event) bool) {
		t.Helper()
		for deadline := time.After(30 * time.Second); ; {
			select {
			case e := <-events:
				if is(e) {
					return
				}
			case <-deadline:
				t.Fatalf("no event: %s", what)
			}
		}
	}
}

// wantEnded waits until a container's end is reported: the CRI notes it some time after the fact.
func wantEnded(t *testing.T, r *containerd.Runtime, id string) time.Time {
	t.Helper()
	return awaitEnd(t, id, func() time.Time { return containerOf(t, r, id).Ended })
}

func awaitEnd(t *testing.T, id string, ended func() time.Time) time.Time {
	t.Helper()
	deadline, tick := time.After(30*time.Second), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		if at := ended(); !at.IsZero() {
			return at
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("container %s has not ended", id)
		}
	}
}
