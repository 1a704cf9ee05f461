package fake_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/runtimetest"
)

func TestConformance(t *testing.T) {
	runtimetest.Run(t, func(t *testing.T) runtimetest.Harness {
		r := fake.New(nil)
		return runtimetest.Harness{Runtime: r, Node: &node{Runtime: r}}
	})
}

// node translates the suite's wishes. Its methods hide the fake's own of the
// same names.
type node struct {
	*fake.Runtime
	pods int
}

func (n *node) Import(_ *testing.T, namespace string, img runtimetest.Image) string {
	f := fake.Image{Name: img.Name, Tags: img.Tags, Config: img.Variant}
	if img.Runnable {
		f.Layers = append(f.Layers, fake.Layer{Name: "busybox", Bytes: 2 << 20, BlobBytes: 2 << 20, Inodes: 400})
	}
	for _, l := range img.Layers {
		f.Layers = append(f.Layers, fake.Layer{Name: l.Seed, Bytes: uint64(l.Bytes), BlobBytes: uint64(l.Bytes), Inodes: 2})
	}
	return n.Runtime.Import(namespace, f)
}

func (n *node) Tag(_ *testing.T, namespace, from, to string) { n.Runtime.Tag(namespace, from, to) }
func (n *node) Pin(_ *testing.T, name string)                { n.Runtime.Pin(name) }

// Label does nothing: the fake has no labels.
func (n *node) Label(*testing.T, string, string, map[string]string) {}

func (n *node) Create(_ *testing.T, namespace, id, image string) {
	n.Runtime.Create(namespace, id, image)
}
func (n *node) Run(_ *testing.T, namespace, id, image string) { n.Runtime.Run(namespace, id, image) }
func (n *node) Stop(_ *testing.T, namespace, id string)       { n.Runtime.Stop(namespace, id) }
func (n *node) Delete(_ *testing.T, namespace, id string)     { n.Runtime.Delete(namespace, id) }

func (n *node) Snapshot(_ *testing.T, namespace, key, image string, _ bool) {
	n.Runtime.Snapshot(namespace, key, image)
}

func (n *node) RemoveSnapshot(_ *testing.T, namespace, key string) {
	n.Runtime.RemoveSnapshot(namespace, key)
}

func (n *node) Lease(_ *testing.T, namespace, id, image string) {
	n.Runtime.Lease(namespace, id, image)
}
func (n *node) Release(_ *testing.T, namespace, id string) { n.Runtime.Release(namespace, id) }

func (n *node) StoredBytes(*testing.T) uint64 {
	d := n.Disk()
	return d.CapacityBytes - d.AvailableBytes
}

func (n *node) Leftovers(*testing.T) []string { return nil }

func (n *node) SandboxImage(*testing.T) string {
	n.SetSandboxImage("pause")
	return n.Runtime.Import(fake.CRINamespace, fake.Image{Name: "pause", Config: "pause"})
}

func (n *node) FillDisk(*testing.T) func() {
	n.SetFaults(fake.Faults{Resolve: inventory.ErrNoSpace})
	return func() { n.SetFaults(fake.Faults{}) }
}

func (n *node) Interrupt(*testing.T) {
	n.CutEvents(errors.New("cut"))
	n.ResumeEvents()
}

func (n *node) LowerDir(*testing.T, string, string) string { return "" }

func (n *node) RunPod(_ *testing.T, p runtimetest.Pod) (sandboxID, containerID string) {
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
	if p.WithoutIdentity {
		c.Name = ""
	}
	n.AddContainer(c)
	return sandboxID, containerID
}

func (n *node) EndContainer(_ *testing.T, id string) { n.Exit(id) }

func (n *node) EndSandbox(t *testing.T, id string) {
	step := container.Step{Action: container.StopSandbox, Decision: container.Decision{SandboxID: id}}
	if err := n.Do(t.Context(), step); err != nil {
		t.Fatal(err)
	}
}
