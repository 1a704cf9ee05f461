package inventory

import "time"

// Facts are what a runtime has learnt about content and snapshots that does not change while they
// exist. Reading the facts takes a call for each of thousands of objects, so one agent hands them
// to the next. Facts about objects that no longer exist do no harm: they are never looked up.
type Facts struct {
	Targets map[string]Target       // by the digest that an image's record points at
	Sizes   map[SnapshotID]SizeFact // of committed snapshots
}

// Target is the image that a digest leads to on this platform.
type Target struct {
	ImageID string // digest of its config
	ChainID string // of its top layer; "" if it has none
}

// SnapshotID names a committed snapshot.
type SnapshotID struct{ Namespace, Snapshotter, Key string }

// SizeFact is the space that a snapshot takes without its parents. A snapshot that was re-created
// under the same name has another creation time.
type SizeFact struct {
	Created       time.Time
	Bytes, Inodes uint64
}
