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

	"github.com/ebb-agent/ebb/runtime/containerd"
	"github.com/ebb-agent/ebb/runtime/runtimetest"
	"github.com/ebb-agent/ebb/tools/node"
)

// TestEnds: when a container has ended is told for as long as it lies dead, to a new
// connection, too; by the CRI of its own, by the task of others. One whose task was
// deleted, and a sandbox, may go on.
func TestEnds(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *harness) {
		r := connect(t, h.Node)
		id := h.Import(t, node.CRINamespace, runtimetest.Image{Name: "ends.test/app:1", Runnable: true})
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

// TestEndsBesideAHangingShim: who does not answer goes on, and holds nothing up for long.
func TestEndsBesideAHangingShim(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *harness) {
		r := connect(t, h.Node)
		h.Import(t, node.CRINamespace, runtimetest.Image{Name: "ends.test/app:1", Runnable: true})
		h.Run(t, node.CRINamespace, "hangs", "ends.test/app:1")
		shim := h.shimOf(t, "hangs")
		must(t, "stop the shim", syscall.Kill(shim, syscall.SIGSTOP))
		goOn := func() { must(t, "go on", syscall.Kill(shim, syscall.SIGCONT)) }
		begun := time.Now()
		at, took := containerOf(t, r, "hangs").Ended, time.Since(begun)
		goOn()
		if !at.IsZero() || took > 10*time.Second {
			t.Errorf("ended at %v, known after %v", at, took)
		}
		h.Delete(t, node.CRINamespace, "hangs")
	})
}

// shimOf is the process that the container's was started by.
func (h *harness) shimOf(t *testing.T, id string) int {
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
