package containerd

import (
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// The records are containerd's metadata, stripped to what this package needs.
// A container's OCI spec, for example, is dropped on arrival: a hundred of them
// would take more memory than the rest of the agent.

// space holds the records of one namespace.
type space struct {
	name       string
	images     []imageRecord
	containers []containerRecord
	snapshots  []snapshotRecord
	contents   []contentRecord
	leases     []leaseRecord
	sandboxes  []sandboxRecord
	ingests    []ingestRecord
	unread     []string // see Graph.Unread
}

type imageRecord struct {
	name    string
	target  string // digest of an index or a manifest
	labels  map[string]string
	updated time.Time    // the later of creation and update
	content imageContent // zero where it cannot be resolved
}

// imageContent is what a target digest leads to on this platform.
type imageContent struct {
	id    string // digest of the image's config: the CRI's image ID
	chain string // chain ID of the top layer; "" for an image without layers
}

type containerRecord struct {
	id, image            string
	snapshotter, snapKey string
	labels               map[string]string
	created              time.Time
	ended                time.Time // see readEnds
	unanswered           bool      // the call for its end failed or timed out
}

// lives reports whether a container uses its image at present.
func (c containerRecord) lives() bool { return c.ended.IsZero() && !c.unanswered }

type snapshotRecord struct {
	snapshotter, key, parent string
	committed                bool
	created                  time.Time
	labels                   map[string]string
	elsewhere                bool   // on a filesystem that is not watched
	bytes, inodes            uint64 // 0 if not committed, or elsewhere
}

// name returns the snapshot's name in the graph and in labels.
func (s snapshotRecord) name() string { return s.snapshotter + "/" + s.key }

// id returns the key under which the snapshot's size is cached.
func (s snapshotRecord) id(namespace string) inventory.SnapshotID {
	return inventory.SnapshotID{Namespace: namespace, Snapshotter: s.snapshotter, Key: s.key}
}

// ours reports whether ebb made the snapshot. It checks both marks, so that another program's
// snapshot is not ignored because of its name alone.
func (s snapshotRecord) ours() bool {
	return strings.HasPrefix(s.key, viewPrefix) && s.labels[ownLabel] != ""
}

type contentRecord struct {
	digest  string
	bytes   uint64
	created image.Timestamp
	labels  map[string]string
}

// ingestRecord is content that is being written, or whose writer has stopped before the end.
type ingestRecord struct {
	ref              string
	bytes            uint64 // so far
	inodes           uint64
	started, updated time.Time
}

// mayGoOn is how long containerd keeps an ingest that is in no lease. containerd counts from when
// the ingest was opened, ebb from its last write, which is later.
const mayGoOn = 24 * time.Hour

type leaseRecord struct {
	id        string
	labels    map[string]string
	resources []leaseResource
}

func (l leaseRecord) ours() bool { return l.labels[ownLabel] != "" }

func (l leaseRecord) flat() bool { _, ok := l.labels[labelFlat]; return ok }

type leaseResource struct {
	kind objectKind
	name string
}

type sandboxRecord struct {
	id     string
	labels map[string]string
}

// byName returns the namespace's image records by name.
func (s *space) byName() map[string]*imageRecord {
	names := make(map[string]*imageRecord, len(s.images))
	for i := range s.images {
		names[s.images[i].name] = &s.images[i]
	}
	return names
}

// parents returns the parents of snapshots that are not committed, by snapshot name.
func (s *space) parents() map[string]string {
	parents := make(map[string]string, len(s.snapshots))
	for _, snap := range s.snapshots {
		if !snap.committed {
			parents[snap.name()] = snap.parent
		}
	}
	return parents
}

// sortedSet sorts and removes duplicates, in place.
func sortedSet(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
