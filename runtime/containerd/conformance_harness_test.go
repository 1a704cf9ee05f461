package containerd_test

import (
	"context"
	"testing"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// This is the one suite that every runtime adapter has to pass: the fake as well as each
// containerd that ebb supports. What it proves for the fake is that tests written against
// the fake mean something. Each case uses image names and layers of its own, and gives back
// what it took. Measured disk figures are compared with computed ones within a margin for
// directories and metadata, which no snapshotter accounts for.

// Runtime is what the suite tests.
type Runtime interface {
	Version() string
	Roots(context.Context) (inventory.Roots, error)
	Inventory(context.Context) (*inventory.Inventory, error)
	Check(ctx context.Context, ids ...string) (map[string]inventory.Image, error)
	Users(ctx context.Context, withdrawals ...inventory.Withdrawal) ([][]string, error)
	Remove(ctx context.Context, imageID string) error
	Withdraw(ctx context.Context, i inventory.Image) (inventory.Withdrawal, error)
	Mend(context.Context) (mended []string, err error)
	ResolveLayer(context.Context, inventory.Layer) (inventory.LayerRoot, error)
	Watch(ctx context.Context, out chan<- inventory.Event) error

	Workloads(context.Context) (inventory.Workloads, error)
	ContainerNow(ctx context.Context, id string) (container.Status, error)
	SandboxNow(ctx context.Context, id string) (ready bool, containers int, err error)
	Do(context.Context, container.Step) error
}

// Layer is content: equal layers are stored once.
type Layer struct {
	Seed  string
	Bytes int64
}

// Image is what a Node imports. Images with equal layers and Variant are one
// image.
type Image struct {
	Name    string
	Tags    []string
	Layers  []Layer
	Variant string
	// Runnable images begin with one more layer, which holds a shell.
	Runnable bool
}

// Pod is what RunPod runs; its container is named "app".
type Pod struct {
	container.PodID
	Image           string
	Attempt         uint32 // of sandbox and container
	Static          bool
	WithoutIdentity bool // its labels are not the kubelet's
}

// Node plays everybody else on the node. Its methods end the test if they
// cannot do what they are asked.
type Node interface {
	Import(t *testing.T, namespace string, img Image) (id string)
	Tag(t *testing.T, namespace, from, to string)
	Pin(t *testing.T, name string) // as containerd 2 pins its own sandbox image
	Label(t *testing.T, namespace, name string, labels map[string]string)

	Create(t *testing.T, namespace, id, image string) // a container that never ran
	Run(t *testing.T, namespace, id, image string)
	Stop(t *testing.T, namespace, id string)
	Delete(t *testing.T, namespace, id string)

	// RunPod does as the kubelet: a sandbox with one container, which runs.
	RunPod(t *testing.T, p Pod) (sandboxID, containerID string)
	// EndContainer makes the pod's container exit.
	EndContainer(t *testing.T, containerID string)
	// EndSandbox stops the pod's sandbox.
	EndSandbox(t *testing.T, sandboxID string)

	Snapshot(t *testing.T, namespace, key, image string, view bool)
	RemoveSnapshot(t *testing.T, namespace, key string)
	Lease(t *testing.T, namespace, id, image string)
	Release(t *testing.T, namespace, id string)

	// StoredBytes measures what blobs and snapshots take on the disk.
	StoredBytes(t *testing.T) uint64
	// Leftovers lists the snapshots that carry ebb's mark.
	Leftovers(t *testing.T) []string
	// SandboxImage imports the runtime's sandbox image unless it is there.
	SandboxImage(t *testing.T) (id string)
	// FillDisk leaves no room on the runtime's disk until undo is called.
	FillDisk(t *testing.T) (undo func())
	// Interrupt kills the runtime and starts it again, or does what comes
	// nearest: the event stream breaks and comes back.
	Interrupt(t *testing.T)
	// LowerDir returns what the kernel reports as the topmost lower directory of a
	// running container's root; "" where no kernel is involved.
	LowerDir(t *testing.T, namespace, id string) string
}

// Harness is a runtime and its node.
type Harness struct {
	Runtime Runtime
	Node    Node
}
