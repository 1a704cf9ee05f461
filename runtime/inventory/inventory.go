// Package inventory defines the types for what a container runtime holds on a node: the images,
// what keeps them, and the events that change either. Adapters (runtime/containerd, runtime/fake)
// return these types, and agent/node reads them. Except for [Find] and [IsName], the package has no behaviour.
package inventory

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/policy/image"
)

// ErrNotFound is returned (wrapped) for an image or layer the runtime does not
// have. Removing an image that is not there is not an error.
var ErrNotFound = errors.New("not found")

// ErrChanged is returned (wrapped) for an image that was pulled or pinned, or has lost a name,
// since the caller has read it.
var ErrChanged = errors.New("the image has changed since it was read")

// ErrNoSpace is returned (wrapped) when the runtime failed because its disk is full.
var ErrNoSpace = errors.New("no space left on device")

// ErrNamesAway is returned (wrapped) for a withdrawal that failed, and could not be undone: names of the image may be
// away, and what it takes is held until Mend has ended that.
var ErrNamesAway = errors.New("the withdrawal could not be undone")

// ErrNamesBack is returned (wrapped) for a withdrawal that failed and was undone: the names have a new date.
var ErrNamesBack = errors.New("the withdrawal was undone")

// ErrUnavailable is returned (wrapped) when nothing answers, or not yet: containerd accepts
// connections before its CRI plugin is ready. It implies nothing about the requested object.
var ErrUnavailable = errors.New("runtime unavailable")

// ErrStale is returned (wrapped) when a part of the runtime that the latest inventory has read cannot be read any more.
// It implies nothing about the requested object: a new inventory shows which images are affected.
var ErrStale = errors.New("the latest inventory does not hold any more")

// ErrUnsupported is returned (wrapped) when the snapshotter does not work with
// directories that overlayfs stacks, so that a layer has no root to watch.
var ErrUnsupported = errors.New("snapshotter has no layer directories")

// Roots are the directories in which a runtime keeps what takes space. Two of them may be the same,
// or be on one filesystem. A directory that the runtime does not report is "".
type Roots struct {
	Images     string // unpacked layers: the snapshotter that the CRI uses
	Content    string // blobs, as they were pulled
	Containers string // writable layers
}

// Inventory is one consistent-enough reading of the runtime. It is never trusted for a
// removal: see Check and Withdraw in runtime/containerd.
type Inventory struct {
	Images     []Image
	Graph      image.Graph
	Containers []Container // of every namespace and state
	Snapshots  map[Layer]Snapshot

	// Blocked, when not empty, is the reason why no image may be removed at all.
	Blocked string

	// Broken are the snapshotters that could not be read, by name, with the reason.
	Broken map[string]string
	// Unwatched are the snapshotters, by name, whose layers are on another filesystem than the images, or
	// where this process cannot see them. Their layers count as 0 bytes. The value is where they are.
	Unwatched map[string]string
}

// Image is one CRI image, joined with every containerd record of the same
// content.
type Image struct {
	ID           string   // config digest, "sha256:…"
	References   []string // every record name in the CRI's namespace, sorted
	Pinned       bool
	Sandbox      bool
	NominalBytes uint64    // what the CRI reports; for display, never for decisions
	Updated      time.Time // newest record's creation or update, by the runtime's wall clock
	Roots        []image.NodeID
	Layers       []Layer  // the top layer, once per namespace and snapshotter it is unpacked in
	UsedBy       []string // "container k8s.io/abc", "snapshot default/xyz": sorted
	// InUse reports whether UsedBy has a snapshot, or a container that has not ended. A container
	// that has ended keeps its image, but does not use it. InUse is only exact in an Inventory.
	InUse bool
	// Unread is a snapshotter that cannot be read, where the image is unpacked: UsedBy lacks its users there.
	// Only an Inventory sets it.
	Unread string
}

// Layer names an unpacked top layer: a committed snapshot whose key is the
// chain ID of all layers below and including it.
type Layer struct {
	Namespace   string
	Snapshotter string
	ChainID     string
}

// LayerRoot is where a layer's files are: the directory that overlayfs gets as
// its topmost lowerdir.
type LayerRoot struct {
	Path    string
	Dev     uint64    // the superblock's s_dev (major<<20 | minor), from mountinfo; btrfs has another st_dev
	Ino     uint64    // the directory's inode number
	Created time.Time // of the snapshot, as the runtime recorded it; differs for a re-created layer

	Generation uint32   `json:",omitzero"` // see Place
	UUID       [16]byte `json:",omitzero"` // see Place
	Below      []Place  // the layers below it, topmost first
}

// Place returns the place of the layer itself.
func (r LayerRoot) Place() Place {
	return Place{Path: r.Path, Dev: r.Dev, Ino: r.Ino, Generation: r.Generation, UUID: r.UUID}
}

// Place is a layer's root directory, as LayerRoot has it.
type Place struct {
	Path string
	Dev  uint64
	Ino  uint64
	// Generation tells directories apart that had the same inode number one
	// after the other; 0 if the filesystem does not say.
	Generation uint32 `json:",omitzero"`
	// UUID is set instead of Dev if a layer is a filesystem of its own, which has another device
	// each time it is mounted (erofs). Path is then its filesystem image.
	UUID [16]byte `json:",omitzero"`
}

// Snapshot is an unpacked layer by itself.
type Snapshot struct {
	Parent string // chain ID of the layer below; "" for the lowest
	// What the snapshot takes on its disk, as the runtime measured it after unpacking; directories
	// and links have inodes, too.
	Bytes, Inodes uint64
}

// Container is a container of any namespace and state.
type Container struct {
	Namespace string
	ID        string
	ImageID   string // "" where no CRI image matches
	// Ended is when the container's process ended, by the runtime's clock. It is the zero time if
	// the process runs, has not started, or its end is unknown.
	Ended time.Time
	Pod   Pod // the zero value if the kubelet did not create it
}

// Pod holds the names that the kubelet gives a container. Any process that may write to the
// runtime's socket can forge them.
type Pod struct {
	Namespace string
	Name      string
	Container string // "" for the pod's sandbox
}

// Workloads are the containers and sandboxes of pods that the CRI lists, in any state.
type Workloads struct {
	Containers []container.Container
	Sandboxes  []container.Sandbox
}

// Withdrawal is an image whose names are deleted while everything else is kept: see Withdraw in
// runtime/containerd. Either Restore or Complete ends it. If both fail, Mend ends it.
type Withdrawal interface {
	// Restore restores the names. The next inventory has the image, unless the runtime takes long
	// to notice. It ends with ctx.
	Restore(ctx context.Context) error
	// Complete lets the runtime collect the image. With collect it returns when the runtime has
	// collected everything that nothing keeps any more, of this image and of those completed
	// before. Without collect, the runtime chooses the time. It continues for a bounded time after
	// ctx is done.
	Complete(ctx context.Context, collect bool) error
}

// NameUser is what a user of a withdrawn image begins with if it is a name that the image has got since.
const NameUser = "name "

// IsName reports whether a user of a withdrawn image is a name.
func IsName(user string) bool { return strings.HasPrefix(user, NameUser) }

// CRINamespace is the namespace in which a runtime with namespaces keeps the CRI's images and
// containers.
const CRINamespace = "k8s.io"

// EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of events.
const (
	EventResync    EventKind = iota // (re)connected: anything may have changed, read again
	EventDown                       // the stream broke; Err is the reason. A Resync follows once it is back
	EventImage                      // an image record was created, changed or deleted
	EventContainer                  // a container was created or deleted
	EventTask                       // a task started or exited
)

// Event is one change in the runtime.
type Event struct {
	Kind      EventKind
	Namespace string
	Container string    // ContainerID for EventContainer and EventTask
	Image     string    // record name for EventImage and a container's creation, where known
	Ended     bool      // EventTask: the container's process has ended, or its task was deleted
	Used      bool      // the container was created, or its process started or ended, just now
	Err       error     // EventDown
	At        time.Time // when it happened, by the wall clock; zero: unknown, but recent
}
