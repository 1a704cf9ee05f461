package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/bpf/bpftest"
	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/fs/fstest"
	"github.com/ebb-agent/ebb/runtime/kube"
	"github.com/ebb-agent/ebb/runtime/kube/sourcetest"
)

// The fakes of this package behave as the real implementations: bpf, runtime/fs and runtime/kube
// have the real ones pass the same suites.

func TestFakeKernelConforms(t *testing.T) {
	bpftest.Conformance(t, func() bpftest.Node { return &kernelNode{began: time.Now()} })
}

// kernelNode is what happens to a fake kernel.
type kernelNode struct {
	kernel *fakeKernel
	began  time.Time
	images uint64
}

func (n *kernelNode) Probes(_ *testing.T, layers int, absent ...string) bpftest.Probes {
	n.kernel = newFakeKernel()
	n.kernel.now = func() time.Duration { return time.Since(n.began) }
	n.kernel.crossings = make(chan bpf.Crossing, 8)
	n.kernel.slots, n.kernel.absent = layers, len(absent) > 0
	n.kernel.waiting = n.kernel.absent
	return n.kernel
}

func (n *kernelNode) Load(string)           { n.kernel.absent = false }
func (n *kernelNode) Now(*testing.T) uint64 { return uint64(time.Since(n.began)) }

func (n *kernelNode) Image(*testing.T) bpf.Key {
	n.images++
	return bpf.Key{Dev: 1, Ino: n.images}
}

func (n *kernelNode) Run(_ *testing.T, image bpf.Key) {
	n.kernel.ran(image)
	n.kernel.heat = append(n.kernel.heat, bpf.LayerHeat{HeatKey: bpf.HeatKey{Filesystem: image.Dev, Inode: image.Ino}, SinceNS: n.Now(nil)})
}

func (n *kernelNode) Disk(_ *testing.T, fsType string) bpftest.Disk {
	d := &kernelDisk{node: n, rt: fake.New(nil), inodes: 1000}
	n.kernel.disk = &fakeDisk{rt: d.rt, kind: fsType}
	d.rt.SetDisk(size, 0, d.inodes)
	return d
}

// kernelDisk is the runtime's disk.
type kernelDisk struct {
	node          *kernelNode
	rt            *fake.Runtime
	taken, inodes uint64
	writers       uint64
}

func (d *kernelDisk) Dev() uint64 { return fakeDev }

func (d *kernelDisk) Free(*testing.T) bpftest.Free {
	disk := d.rt.Disk()
	return bpftest.Free{Blocks: disk.AvailableBytes / blockSize, Reserved: reserved, Inodes: disk.InodesAvailable}
}

// change is an allocation, or its end.
func (d *kernelDisk) change(blocks, files int) {
	before := d.rt.Disk()
	d.taken, d.inodes = d.taken+uint64(blocks*blockSize), d.inodes-uint64(files)
	d.rt.SetDisk(size, d.taken, d.inodes)
	if blocks < 0 {
		d.node.kernel.gave(uint64(-blocks * blockSize))
		return
	}
	d.node.kernel.wrote(fakeDev, before, d.rt.Disk())
}

func (d *kernelDisk) Take(_ *testing.T, blocks uint64) (giveBack func()) {
	d.change(int(blocks), 0)
	return func() { d.change(-int(blocks), 0) }
}

func (d *kernelDisk) Make(_ *testing.T, files int) {
	for range files {
		d.change(0, 1)
	}
}

func (d *kernelDisk) Write(_ *testing.T, blocks uint64) (cgroup uint64, end func()) {
	d.writers++
	id := d.writers
	d.node.kernel.Wrote(fakeDev, id, blocks*blockSize)
	return id, func() { d.node.kernel.EndWriter(id, d.node.Now(nil), fmt.Sprint("/", id)) }
}

func TestFakeDiskConforms(t *testing.T) {
	fstest.Conformance(t, func(_ *testing.T, fsType string) fstest.Node {
		rt := fake.New(nil)
		n := &diskNode{fakeDisk: &fakeDisk{rt: rt, kind: fsType, news: make(chan struct{}, 1)}, fsType: fsType, taken: 100 * mib}
		rt.SetDisk(size, n.taken, 1000)
		return n
	})
}

// diskNode is a node with a fake disk.
type diskNode struct {
	*fakeDisk
	fsType string
	taken  uint64
}

func (n *diskNode) Path() string { return "/" }
func (n *diskNode) Dev() uint64  { return fakeDev }

func (n *diskNode) Cover(*testing.T) (uncover func()) {
	n.mount("/", otherDev, n.fsType, newPlainDisk(otherDev, size).read)
	return func() { n.unmount("/") }
}

func (n *diskNode) Write(_ *testing.T, bytes uint64) (remove func()) {
	n.rt.SetDisk(size, n.taken+bytes, 1000)
	return func() { n.rt.SetDisk(size, n.taken, 1000) }
}

func TestFakePodsConform(t *testing.T) {
	p := &fakePods{}
	sourcetest.Pods(t, p, &podNode{pods: p})
}

// podNode is a node with pods.
type podNode struct {
	pods *fakePods
	list []kube.Pod
	made int
}

func (n *podNode) Put(_ *testing.T, name string) (uid string) {
	n.made++
	uid = fmt.Sprint("uid-", n.made)
	n.list = append(n.list, kube.Pod{UID: uid, Namespace: "default", Name: name})
	n.pods.set(nil, n.list...)
	return uid
}

func (n *podNode) Remove(_ *testing.T, name string) {
	n.list = slices.DeleteFunc(n.list, func(p kube.Pod) bool { return p.Name == name })
	n.pods.set(nil, n.list...)
}

func (n *podNode) Away(*testing.T) (back func()) {
	n.pods.set(kube.ErrUnavailable, n.list...)
	return func() { n.pods.set(nil, n.list...) }
}

func TestPostedEventsConforms(t *testing.T) {
	p := &postedEvents{}
	sourcetest.Events(t, p, func(_ *testing.T, name string) (count int) {
		for _, e := range p.list {
			if e.Name == name {
				count = e.Count
			}
		}
		return count
	})
}
