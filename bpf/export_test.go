package bpf

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// SuiteNode is a node for the conformance suite, which imports this package, so that no test
// within can run it.
type SuiteNode struct {
	modules modules
	images  map[Key]rootfs
}

// LoadProbes loads probes for so many layers that wait for some modules.
func (n *SuiteNode) LoadProbes(t *testing.T, layers int, absent ...string) *Probes {
	t.Helper()
	n.modules.absent, n.images = map[string]bool{}, map[Key]rootfs{}
	for _, name := range absent {
		n.modules.absent[name] = true
	}
	o := Options{MaxLayers: uint32(layers)}
	if len(absent) == 0 {
		return load(t, o)
	}
	o.absent = n.modules.isAbsent
	return loadWaiting(t, o)
}

// Load loads a module.
func (n *SuiteNode) Load(module string) { n.modules.insert(module) }

// Image makes a root filesystem.
func (n *SuiteNode) Image(t *testing.T) Key {
	t.Helper()
	r := overlay(t)
	n.images[r.key] = r
	return r.key
}

// Run runs a process in one.
func (n *SuiteNode) Run(t *testing.T, image Key) {
	t.Helper()
	n.images[image].run(t, "true")
}

// Now is the time since the boot.
func (*SuiteNode) Now(t *testing.T) uint64 {
	t.Helper()
	return now(t)
}

// SuiteDisk is a filesystem for the suite.
type SuiteDisk struct{ fs *filesystem }

// NewSuiteDisk makes one. An ext4 keeps blocks for root.
func NewSuiteDisk(t *testing.T, kind string) *SuiteDisk {
	t.Helper()
	if kind == "ext4" {
		return &SuiteDisk{newExt4(t, "-b", "4096", "-m", "2")}
	}
	return &SuiteDisk{newKind(t, kind)}
}

// Dev is its number.
func (d *SuiteDisk) Dev() uint64 { return d.fs.dev }

// Statfs returns what is free.
func (d *SuiteDisk) Statfs(t *testing.T) (blocks, reserved, inodes uint64) {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(d.fs.dir, &st); err != nil {
		t.Fatal(err)
	}
	return st.Bavail, st.Bfree - st.Bavail, st.Ffree
}

// Take takes blocks, until they are given back.
func (d *SuiteDisk) Take(t *testing.T, blocks uint64) (giveBack func()) {
	t.Helper()
	file := d.fs.take(t, blocks)
	return func() {
		t.Helper()
		d.fs.sync(t)
		before, _ := d.fs.free(t)
		remove(t, file)
		const slack = 50 // of metadata, on xfs and btrfs
		d.fs.untilFree(t, before+blocks-min(blocks, slack))
	}
}

// Make makes empty files.
func (d *SuiteDisk) Make(t *testing.T, files int) {
	t.Helper()
	for range files {
		if err := os.WriteFile(d.fs.path(), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Write takes blocks in a cgroup of its own.
func (d *SuiteDisk) Write(t *testing.T, blocks uint64) (id uint64, end func()) {
	t.Helper()
	a := newActor(t, cgroup(t, "writer"), d.fs.dir)
	a.do(fmt.Sprintf("fallocate -l %d by-%d", 4096*blocks, a.id))
	return a.id, func() {
		a.end()
		removeCgroups(t, a.cg)
	}
}
