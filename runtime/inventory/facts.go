package inventory

import "time"

// Facts are what a runtime has learnt of content and snapshots that does not change as long
// as they are there. To ask for it takes a call for each of thousands, so it is kept from
// one agent to the next. What is there no more does no harm: it is never asked for.
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

// SizeFact is what a snapshot takes by itself. One that was made anew under the same name
// has another time of creation.
type SizeFact struct {
	Created       time.Time
	Bytes, Inodes uint64
}
