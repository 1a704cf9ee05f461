package workloads

import (
	"testing"

	"github.com/ebb-agent/ebb/policy/container"
)

// TestExitsThatTheCRIHasNotSeen: containerd reports the end of a container, or of a
// sandbox, before the CRI knows it: it is looked at again until it does.
func TestExitsThatTheCRIHasNotSeen(t *testing.T) {
	d := &seen{ended: make(map[string]int)}
	d.Containers = []container.Container{{ID: "c", State: container.StateRunning}}
	d.Sandboxes = []container.Sandbox{{ID: "s"}}
	if wait := d.lag([]string{"c", "s"}); wait != 0 {
		t.Fatalf("nothing has ended, and the next look is in %v", wait)
	}
	d.ended["c"], d.ended["s"] = 0, 0
	if wait := d.lag([]string{"c", "s"}); wait != lagFirst {
		t.Fatalf("both have ended: the next look is in %v", wait)
	}
	d.Containers[0].State = container.StateExited
	if wait := d.lag([]string{"c", "s"}); wait != 2*lagFirst {
		t.Fatalf("the sandbox has ended: the next look is in %v", wait)
	}
	d.Sandboxes[0].NotReady = true
	if wait := d.lag([]string{"c", "s"}); wait != 0 || len(d.ended) != 0 {
		t.Fatalf("the CRI knows both: the next look is in %v, for %v", wait, d.ended)
	}
}
