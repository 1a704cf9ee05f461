package node

import (
	"cmp"
	"context"
	"fmt"
	iofs "io/fs"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/agent/node/lastuse"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/fs"
)

// fakeDisk is the fake runtime's disk, and whatever a test mounts beside it.
type fakeDisk struct {
	rt   *fake.Runtime
	kind string        // "ext4" if empty
	root fs.Project    // whose limit the runtime's disk shows
	news chan struct{} // mounts changed

	mu      sync.Mutex
	written int64  // bytes that Stat does not show before Settle; deleted: negative
	settled int    // calls of Settle
	leaving uint64 // bytes that Stat does not show for 100 ms after Settle
	left    time.Time
	stuck   bool   // Settle does not end before its context
	during  func() // called at the beginning of Settle
	asked   func() // called by each other method
	mounts  map[string]fakeMount
	mounted uint64 // mounts made so far
}

// fakeMount is what a path leads to.
type fakeMount struct {
	id   uint64
	dev  uint64
	kind string
	read func() image.Disk

	project fs.Project
}

const (
	fakeDev   = 8<<20 | 1
	blockSize = 4096
	reserved  = 7 // blocks
)

// at returns what a path leads to. The root is the runtime's disk unless a test
// has mounted something over it; nothing else is there by itself.
func (d *fakeDisk) at(path string) (fakeMount, error) {
	if m, ok := d.mounts[path]; ok && m.read != nil {
		return m, nil
	} else if ok || path != "/" {
		return fakeMount{}, fmt.Errorf("stat %q: %w", path, iofs.ErrNotExist)
	}
	kind := cmp.Or(d.kind, "ext4")
	return fakeMount{dev: fakeDev, kind: kind, project: d.root, read: func() image.Disk {
		disk := d.rt.Disk()
		disk.AvailableBytes += uint64(d.written)
		if kind == "btrfs" {
			disk.Inodes, disk.InodesAvailable = 0, 0
		}
		return disk
	}}, nil
}

// mount makes a path lead to a filesystem, and reports that as the kernel does. A
// nil reading makes it lead nowhere.
func (d *fakeDisk) mount(path string, dev uint64, kind string, read func() image.Disk) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mounts == nil {
		d.mounts = map[string]fakeMount{}
	}
	d.mounted++
	d.mounts[path] = fakeMount{id: d.mounted, dev: dev, kind: kind, read: read}
	d.changed()
}

// unmount lets a path lead to what is below: nothing, or the runtime's disk.
func (d *fakeDisk) unmount(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mounts, path)
	d.changed()
}

func (d *fakeDisk) changed() {
	select {
	case d.news <- struct{}{}:
	default: // signalled already, and not received yet
	}
}

func (d *fakeDisk) Stat(path string) (image.Disk, fs.Info, error) {
	d.isAsked()
	d.mu.Lock()
	defer d.mu.Unlock()
	m, err := d.at(path)
	if err != nil {
		return image.Disk{}, fs.Info{}, err
	}
	disk := m.read()
	if time.Now().Before(d.left) {
		disk.AvailableBytes -= min(d.leaving, disk.AvailableBytes)
	}
	avail := disk.AvailableBytes / blockSize
	return disk, fs.Info{Type: m.kind, MountPoint: path, Dev: m.dev, Project: m.project, BlockSize: blockSize,
		Blocks: disk.CapacityBytes / blockSize, Free: avail + reserved, Avail: avail}, nil
}

func (d *fakeDisk) Settle(ctx context.Context, path string, _ func(image.Disk) bool) (image.Disk, error) {
	d.mu.Lock()
	stuck, during := d.stuck, d.during
	d.mu.Unlock()
	if during != nil {
		during()
	}
	if stuck {
		<-ctx.Done()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settled++
	m, err := d.at(path)
	if err != nil {
		return image.Disk{}, err
	}
	if stuck {
		return m.read(), context.Cause(ctx)
	}
	d.written, d.left = 0, time.Now().Add(100*time.Millisecond)
	return m.read(), nil
}

func (d *fakeDisk) isAsked() {
	d.mu.Lock()
	asked := d.asked
	d.mu.Unlock()
	if asked != nil {
		asked()
	}
}

func (d *fakeDisk) Directory(path string) (lastuse.Directory, error) {
	d.isAsked()
	at := fake.PlaceAt(path)
	return lastuse.Directory{Dev: at.Dev, Ino: at.Ino, Birth: 1}, nil
}

func (d *fakeDisk) Identify(path string) (fs.Identity, error) {
	d.isAsked()
	d.mu.Lock()
	defer d.mu.Unlock()
	m, err := d.at(path)
	if err != nil {
		return fs.Identity{}, err
	}
	return fs.Identity{Mount: m.id + 1, Dev: m.dev, Project: m.project}, nil
}

func (d *fakeDisk) WatchMounts(ctx context.Context, _ string, out chan<- struct{}) error {
	for {
		select {
		case out <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-d.news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
