package containerd_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

func TestFakeConforms(t *testing.T) {
	conform(t, func(t *testing.T) Harness {
		r := fake.New(nil)
		return Harness{Runtime: r, Node: &fakeNode{Runtime: r}}
	})
}

// fakeNode translates the suite's wishes. Its methods hide the fake's own of the
// same names.
type fakeNode struct {
	*fake.Runtime
	pods int
}

func (n *fakeNode) Import(_ *testing.T, namespace string, img Image) string {
	f := fake.Image{Name: img.Name, Tags: img.Tags, Config: img.Variant}
	if img.Runnable {
		f.Layers = append(f.Layers, fake.Layer{Name: "busybox", Bytes: 2 << 20, BlobBytes: 2 << 20, Inodes: 400})
	}
	for _, l := range img.Layers {
		f.Layers = append(f.Layers, fake.Layer{Name: l.Seed, Bytes: uint64(l.Bytes), BlobBytes: uint64(l.Bytes), Inodes: 2})
	}
	return n.Runtime.Import(namespace, f)
}

func (n *fakeNode) Tag(_ *testing.T, namespace, from, to string) { n.Runtime.Tag(namespace, from, to) }
func (n *fakeNode) Pin(_ *testing.T, name string)                { n.Runtime.Pin(name) }

// Label does nothing: the fake has no labels.
func (n *fakeNode) Label(*testing.T, string, string, map[string]string) {}

func (n *fakeNode) Create(_ *testing.T, namespace, id, image string) {
	n.Runtime.Create(namespace, id, image)
}
func (n *fakeNode) Run(_ *testing.T, namespace, id, image string) {
	n.Runtime.Run(namespace, id, image)
}
func (n *fakeNode) Stop(_ *testing.T, namespace, id string)   { n.Runtime.Stop(namespace, id) }
func (n *fakeNode) Delete(_ *testing.T, namespace, id string) { n.Runtime.Delete(namespace, id) }

func (n *fakeNode) Snapshot(_ *testing.T, namespace, key, image string, _ bool) {
	n.Runtime.Snapshot(namespace, key, image)
}

func (n *fakeNode) RemoveSnapshot(_ *testing.T, namespace, key string) {
	n.Runtime.RemoveSnapshot(namespace, key)
}

func (n *fakeNode) Lease(_ *testing.T, namespace, id, image string) {
	n.Runtime.Lease(namespace, id, image)
}
func (n *fakeNode) Release(_ *testing.T, namespace, id string) { n.Runtime.Release(namespace, id) }

func (n *fakeNode) StoredBytes(*testing.T) uint64 {
	d := n.Disk()
	return d.CapacityBytes - d.AvailableBytes
}

func (n *fakeNode) Leftovers(*testing.T) []string { return nil }

func (n *fakeNode) SandboxImage(*testing.T) string {
	n.SetSandboxImage("pause")
	return n.Runtime.Import(fake.CRINamespace, fake.Image{Name: "pause", Config: "pause"})
}

func (n *fakeNode) FillDisk(*testing.T) func() {
	n.SetFaults(fake.Faults{Resolve: inventory.ErrNoSpace})
	return func() { n.SetFaults(fake.Faults{}) }
}

func (n *fakeNode) Interrupt(*testing.T) {
	n.CutEvents(errors.New("cut"))
	n.ResumeEvents()
}

func (n *fakeNode) LowerDir(*testing.T, string, string) string { return "" }

func (n *fakeNode) RunPod(_ *testing.T, p Pod) (sandboxID, containerID string) {
	if p.WithoutIdentity {
		p.PodID = container.PodID{}
	}
	n.pods++
	sandboxID, containerID = fmt.Sprint("sandbox-", n.pods), fmt.Sprint("container-", n.pods)
	n.AddSandbox(container.Sandbox{ID: sandboxID, Pod: p.PodID, Attempt: p.Attempt, Static: p.Static, Created: time.Now()})
	c := container.Container{
		ID: containerID, SandboxID: sandboxID, Pod: p.PodID, Name: "app", Attempt: p.Attempt,
		State: container.StateRunning, Created: time.Now(),
	}
	n.SetLogPath(containerID, fmt.Sprintf("/var/log/pods/%s_%s_%s/app/%d.log", p.Namespace, p.Name, p.UID, p.Attempt))
	if p.WithoutIdentity {
		c.Name = ""
	}
	n.AddContainer(c)
	return sandboxID, containerID
}

func (n *fakeNode) EndContainer(_ *testing.T, id string) { n.Exit(id) }

func (n *fakeNode) EndSandbox(t *testing.T, id string) {
	step := container.Step{Action: container.StopSandbox, Decision: container.Decision{SandboxID: id}}
	if err := n.Do(t.Context(), step); err != nil {
		t.Fatal(err)
	}
}
