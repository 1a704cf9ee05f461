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

// TestEnds: when a container has ended is told for as long as it lies dead, to a new
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
// any more. Its end stays known, and its image is not in use, whether the end was read before or not.
func TestEndBesideItsRemoval(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		id := h.Import(t, node.CRINamespace, Image{Name: "ends.test/removed:1", Runnable: true})
		for _, read := range []bool{true, false} {
			r := connect(t, h.Node)
			pod, err := h.Node.RunPod(t.Context(), node.PodSpec{Name: fmt.Sprint("removed-", read), Containers: []node.PodContainer{
				{Name: "c", Image: "ends.test/removed:1", Command: []string{"sleep", "600"}}}})
			must(t, "run pod", err)
			c := pod.Containers["c"]
			h.EndContainer(t, c)
			var ended time.Time
			if read {
				ended = wantEnded(t, r, c)
			}
			in := h.in(t, node.CRINamespace)
			record, err := h.Client().ContainerService().Get(in, c)
			must(t, "read the record", err)
			must(t, "remove pod", pod.Remove(t.Context()))
			_, err = h.Client().ContainerService().Create(in, record) // as containerd listed it a moment ago
			must(t, "put the record back", err)
			for range 2 {
				if at := containerOf(t, r, c).Ended; !at.Equal(ended) {
					t.Errorf("read before: %v: it ended at %v, not at %v", read, at, ended)
				}
				if find(t, r, id).InUse {
					t.Errorf("read before: %v: the image is in use by a container that is being removed", read)
				}
			}
			must(t, "delete the record", h.Client().ContainerService().Delete(in, c))
		}
	})
}

// TestEndOutlivesItsTask: whoever watches knows the end of a container whose task was deleted
// since, until a task begins anew in it. Containerd 2 sometimes tells neither the exit nor the
// deletion of a task that is killed by it: its shim ends before it has sent them.
func TestEndOutlivesItsTask(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		r := connect(t, h.Node)
		ctx, cancel := context.WithCancel(t.Context())
		events, over := make(chan inventory.Event, 1000), make(chan struct{})
		go func() { defer close(over); _ = r.Watch(ctx, events) }()
		t.Cleanup(func() { cancel(); <-over })
		hear := func(what string, is func(inventory.Event) bool) {
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
		hear("the stream stands", func(e inventory.Event) bool { return e.Kind == inventory.EventResync })
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

// wantEnded waits until a container's end is told: the CRI notes it some time after the fact.
func wantEnded(t *testing.T, r *containerd.Runtime, id string) time.Time {
	t.Helper()
	deadline, tick := time.After(30*time.Second), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		if at := containerOf(t, r, id).Ended; !at.IsZero() {
			return at
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("container %s has not ended", id)
		}
	}
}
