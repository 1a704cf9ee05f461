package fake

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// CRINamespace is where the CRI's images and containers are.
const CRINamespace = inventory.CRINamespace

const snapshotter = "overlayfs"

// Layer is content that is stored once as a blob, and once per namespace as a
// snapshot. Layers of one name are the same content.
type Layer struct {
	Name          string
	Bytes, Inodes uint64 // of the snapshot
	BlobBytes     uint64 // 0: discarded when it was unpacked
}

// Image is what is imported. Two images with the same layers and the same
// Config are one image with several names.
type Image struct {
	Name   string
	Tags   []string
	Layers []Layer
	Config string
	Pinned bool
}

// Faults makes calls fail. The zero value makes none.
type Faults struct {
	Inventory error
	Broken    map[string]string // Inventory.Broken
	Unwatched map[string]string // Inventory.Unwatched
	In        map[string]string // by image ID: the one of Broken in which it is unpacked
	Check     error
	Remove    map[string]error // by image ID
	Resolve   error            // inventory.ErrNoSpace for a full disk
	Withdraw  error            // before anything is changed
	Halfway   error            // of the next Withdraw, before the last name: it is undone, unless End fails
	Users     error            // from Users
	End       error            // from Restore and Complete
	Complete  map[string]error // from Complete alone, by image ID
	During    func(id string)  // called while an image is withdrawn
	Restore   error            // from the next Restore alone, once
	Restored  func(id string)  // called when an image has its names back
	Checking  func()           // called before Check looks
	Collect   time.Duration    // how long a collection takes
	Unseen    time.Duration    // until a restored name is listed
	Delay     time.Duration    // before each answer
	Undated   bool             // ends of containers are not reported

	// Withheld is the share of the bytes freed by a removal that the disk does not give back, 0 to
	// 1, as with files that are deleted but open.
	Withheld float64
}

// stored is an image's content.
type stored struct {
	Image
	id     string
	chains []string // chain ID per layer, from the bottom
}

func (s *stored) top() string {
	if len(s.chains) == 0 {
		return ""
	}
	return s.chains[len(s.chains)-1]
}

type task struct {
	image   *stored // as it was when the container was made
	running bool
	ended   time.Time // zero: it runs, or has not begun
}

// key names something in a namespace.
type key struct{ namespace, name string }

// Runtime is the fake. Make one with New.
type Runtime struct {
	mu         sync.Mutex
	now        func() time.Time
	records    map[key]record
	containers map[key]*task
	snapshots  map[key]string  // active or view snapshot → parent's chain ID
	leases     map[key]*stored // what the lease keeps
	roots      map[key]time.Time
	sandbox    string // name
	blocked    string
	faults     Faults
	removed    []string
	capacity   image.Disk
	other      uint64 // bytes on the disk that are not images
	blobs      *split // nil: blobs are on the same disk
	work       workloads

	withdrawals []*withdrawal
	withdrawn   int // so far
	collections int
	events      stream
}

// split is a disk that holds nothing but blobs.
type split struct {
	path     string
	capacity image.Disk
	other    uint64
}

type record struct {
	*stored
	updated time.Time
	unseen  time.Time // until when it is not listed
}

// New returns an empty runtime on a disk of 10 GiB. now gives the images their
// dates; nil is time.Now.
func New(now func() time.Time) *Runtime {
	if now == nil {
		now = time.Now
	}
	return &Runtime{
		now: now, records: map[key]record{}, containers: map[key]*task{},
		snapshots: map[key]string{}, leases: map[key]*stored{}, roots: map[key]time.Time{},
		capacity: image.Disk{CapacityBytes: 10 << 30, Inodes: 1 << 20},
		events:   stream{news: make(chan struct{}, 1)},
		work:     newWorkloads(),
	}
}

// Import stores an image under its names and returns its ID.
func (r *Runtime) Import(namespace string, img Image) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &stored{Image: img}
	hash := sha256.New()
	for _, l := range img.Layers {
		fmt.Fprintf(hash, "%q", l.Name)
		chain := fmt.Sprintf("sha256:%x", hash.Sum(nil))
		s.chains = append(s.chains, chain)
		if _, ok := r.roots[key{namespace, chain}]; !ok {
			r.roots[key{namespace, chain}] = r.now()
		}
	}
	fmt.Fprintf(hash, "config %q", img.Config)
	s.id = fmt.Sprintf("sha256:%x", hash.Sum(nil))
	for _, name := range append([]string{img.Name}, img.Tags...) {
		r.put(namespace, name, s)
	}
	return s.id
}

// Tag gives the image named from a further name, to, which it takes from any other image.
func (r *Runtime) Tag(namespace, from, to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(namespace, to, r.lookup(namespace, from))
}

// Pin pins the image that a name means.
func (r *Runtime) Pin(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.lookup(CRINamespace, name)
	s.Pinned = true
	r.put(CRINamespace, name, s)
}

// Untag deletes a name, and the image with its last one.
func (r *Runtime) Untag(namespace, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.records, key{namespace, name})
	r.events.add(inventory.Event{Kind: inventory.EventImage, Namespace: namespace, Image: name})
}

func (r *Runtime) put(namespace, name string, s *stored) {
	r.records[key{namespace, name}] = record{stored: s, updated: r.now()}
	r.events.add(inventory.Event{Kind: inventory.EventImage, Namespace: namespace, Image: name})
}

func (r *Runtime) lookup(namespace, name string) *stored {
	rec, ok := r.records[key{namespace, name}]
	if !ok {
		panic(fmt.Sprintf("fake: no image %s/%s", namespace, name))
	}
	return rec.stored
}

// Create makes a container that does not run.
func (r *Runtime) Create(namespace, id, imageName string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.containers[key{namespace, id}] = &task{image: r.lookup(namespace, imageName)}
	r.events.add(inventory.Event{Kind: inventory.EventContainer, Namespace: namespace, Container: id, Image: imageName, Used: true, At: r.now()})
}

// Run makes a container and starts it.
func (r *Runtime) Run(namespace, id, imageName string) {
	r.Create(namespace, id, imageName)
	r.setRunning(namespace, id, true)
}

// Stop ends a container's task; the container stays.
func (r *Runtime) Stop(namespace, id string) { r.setRunning(namespace, id, false) }

func (r *Runtime) setRunning(namespace, id string, running bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[key{namespace, id}]
	c.running, c.ended = running, time.Time{}
	if !running {
		c.ended = r.now()
	}
	r.events.add(inventory.Event{Kind: inventory.EventTask, Namespace: namespace, Container: id, Ended: !running, Used: true, At: r.now()})
}

// Delete removes a container.
func (r *Runtime) Delete(namespace, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.containers, key{namespace, id})
	r.events.add(inventory.Event{Kind: inventory.EventContainer, Namespace: namespace, Container: id})
}

// Snapshot makes a bare snapshot on an image's top layer, as a builder does.
func (r *Runtime) Snapshot(namespace, name, imageName string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.snapshots[key{namespace, name}] = r.lookup(namespace, imageName).top()
}

// RemoveSnapshot removes a snapshot that Snapshot made.
func (r *Runtime) RemoveSnapshot(namespace, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.snapshots, key{namespace, name})
}

// Lease makes a lease that keeps the content and the layers of an image.
func (r *Runtime) Lease(namespace, id, imageName string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leases[key{namespace, id}] = r.lookup(namespace, imageName)
}

// Release deletes a lease.
func (r *Runtime) Release(namespace, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.leases, key{namespace, id})
}

// SetSandboxImage sets the name of the sandbox image.
func (r *Runtime) SetSandboxImage(name string) { r.mu.Lock(); r.sandbox = name; r.mu.Unlock() }

// SetBlocked makes inventories say that nothing may be removed.
func (r *Runtime) SetBlocked(reason string) { r.mu.Lock(); r.blocked = reason; r.mu.Unlock() }

// SetFaults replaces all faults.
func (r *Runtime) SetFaults(f Faults) { r.mu.Lock(); r.faults = f; r.mu.Unlock() }

// Removed returns the IDs that Remove has removed, in order.
func (r *Runtime) Removed() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.removed)
}

// SetDisk sets the disk's capacity, and how much of it is not images.
func (r *Runtime) SetDisk(capacityBytes, otherBytes, inodes uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.capacity = image.Disk{CapacityBytes: capacityBytes, Inodes: inodes}
	r.other = otherBytes
}

// Disk reads the disk.
func (r *Runtime) Disk() image.Disk {
	r.mu.Lock()
	defer r.mu.Unlock()
	bytes, inodes := r.stored()
	return subtract(r.capacity, bytes+r.other, inodes)
}

// SplitContent puts the blobs on a disk of their own.
func (r *Runtime) SplitContent(path string, capacityBytes, otherBytes, inodes uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blobs = &split{path: path, capacity: image.Disk{CapacityBytes: capacityBytes, Inodes: inodes}, other: otherBytes}
}

// ContentDisk reads the disk of the blobs.
func (r *Runtime) ContentDisk() image.Disk {
	r.mu.Lock()
	defer r.mu.Unlock()
	bytes, inodes := r.count(func(k image.NodeKind) bool { return k == image.NodeBlob })
	return subtract(r.blobs.capacity, bytes+r.blobs.other, inodes)
}

func subtract(capacity image.Disk, bytes, inodes uint64) image.Disk {
	d := capacity
	d.AvailableBytes = d.CapacityBytes - min(d.CapacityBytes, bytes)
	d.InodesAvailable = d.Inodes - min(d.Inodes, inodes)
	return d
}

// stored counts what is on the disk.
func (r *Runtime) stored() (bytes, inodes uint64) {
	return r.count(func(k image.NodeKind) bool { return k != image.NodeBlob || r.blobs == nil })
}

// count adds up the nodes that a holder or an image leads to, of the kinds that here selects.
func (r *Runtime) count(here func(image.NodeKind) bool) (bytes, inodes uint64) {
	b := r.graph()
	reached := map[image.NodeID]bool{}
	var visit func([]image.NodeID)
	visit = func(ids []image.NodeID) {
		for _, id := range ids {
			if !reached[id] {
				reached[id] = true
				n := b.graph.Nodes[id]
				if here(n.Kind) {
					bytes, inodes = bytes+n.Bytes, inodes+n.Inodes
				}
				visit(n.Refs)
			}
		}
	}
	for _, h := range b.graph.Holders {
		visit(h.Nodes)
	}
	for _, roots := range b.roots {
		visit(roots)
	}
	return bytes, inodes
}

// sortedKeys makes answers independent of the order of maps.
func sortedKeys[V any](m map[key]V) []key {
	return slices.SortedFunc(maps.Keys(m), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
}
