package image

import (
	"math"
	"slices"
	"time"
)

// Policy is the operator's configuration. Percentages are of the filesystem's capacity, as
// the kubelet counts them (see [Disk.UsedPercent]).
type Policy struct {
	HighPercent int // reclaim starts when used reaches it; 1..100, 100 switches it off
	LowPercent  int // reclaim ends at or below it; 0..HighPercent-1

	InodesHighPercent int // the same two thresholds for inodes; both 0 switch them off too
	InodesLowPercent  int

	MinimumAge time.Duration // an image younger than this stays; >= 0
	MaximumAge time.Duration // an image unused for this long goes regardless of the disk; 0 is off

	// FutileShare is a percentage, 0..100. If a low threshold cannot be reached, images are
	// kept that together would free no more than this share of what is needed.
	FutileShare int
}

// Disk is one exact reading of the filesystem that holds the images.
type Disk struct {
	CapacityBytes   uint64 // f_blocks
	AvailableBytes  uint64 // f_bavail: what unprivileged writers can still get
	Inodes          uint64 // 0 where the filesystem does not count them (btrfs)
	InodesAvailable uint64
}

// Size is what something takes on the disk.
type Size struct {
	Bytes, Inodes uint64
}

// Add returns s plus t, saturated.
func (s Size) Add(t Size) Size { return Size{satAdd(s.Bytes, t.Bytes), satAdd(s.Inodes, t.Inodes)} }

// Sub returns s minus t, or 0 where that would be negative.
func (s Size) Sub(t Size) Size { return Size{satSub(s.Bytes, t.Bytes), satSub(s.Inodes, t.Inodes)} }

// Snapshot is the whole input of a decision. Decide does not change it or keep references to
// it.
type Snapshot struct {
	Policy Policy
	Disk   Disk
	Images []Image
	Graph  Graph

	Pods Pods // how far Image.Wanted can be relied on

	// Blocked, if not empty, is why nothing may be removed now (for example, an unknown
	// sandbox image).
	Blocked string

	// ReclaimingBytes and ReclaimingInodes mean that a run for that threshold has begun and
	// has not reached its low threshold yet: the high threshold no longer matters. A caller
	// that decides again during a run sets them. It clears them when the run ends, even if it
	// ends in a hold.
	ReclaimingBytes, ReclaimingInodes bool

	// Hold is what the previous decision returned in Plan.Hold; nil if none.
	Hold *Hold
}

// Image is one image as the CRI counts them: one ID, any number of references.
type Image struct {
	ID         string   // the config digest, "sha256:…"
	References []string // every name the runtime knows it by

	UsedBy  []string // containers, snapshots and sandboxes that use it, in any namespace
	Unread  string   // the snapshotter where its users could not be read; "": UsedBy is complete
	Wanted  []string // pods bound to this node that will use it
	Pinned  bool     // the runtime forbids its removal
	Sandbox bool     // the runtime's sandbox ("pause") image
	Keep    string   // the operator's rule that matched one of References, or ""

	LastUsed time.Time // zero: unknown; Observed counts instead
	Arrived  time.Time // when it was pulled or imported; what MinimumAge counts from
	Observed time.Time // when ebb first saw it; MaximumAge removes nothing before Observed+MaximumAge

	RetryAt time.Time // after a removal that failed: left alone until then

	Roots []NodeID // what the image's records keep alive in Snapshot.Graph

	NominalBytes uint64 // the size from the CRI; only Account shows it, no decision uses it
}

// NodeID is an index into Graph.Nodes.
type NodeID uint32

// NodeKind is what a graph node represents.
type NodeKind uint8

// The kinds of graph nodes.
const (
	NodeRecord   NodeKind = iota // metadata only: keeps other nodes, takes no space
	NodeBlob                     // bytes in the content store, shared by all namespaces
	NodeSnapshot                 // an unpacked layer, private to a namespace and snapshotter
)

// Node is an object of the runtime that takes space, or keeps other nodes that do.
type Node struct {
	Kind    NodeKind
	Partial bool      // a blob that is not complete: an ingest
	Created Timestamp // for Account only
	Bytes   uint64
	Inodes  uint64
	Refs    []NodeID // nodes that stay as long as this node does; cycles are allowed
}

// Timestamp is a time in whole Unix seconds; zero is unknown. There are hundreds of thousands
// of nodes, and each has four bytes to spare.
type Timestamp uint32

// TimestampOf returns the timestamp of t, or zero if it does not fit.
func TimestampOf(t time.Time) Timestamp {
	if seconds := t.Unix(); seconds > 0 && seconds <= math.MaxUint32 {
		return Timestamp(seconds)
	}
	return 0
}

// Time returns the time in UTC, or the zero time if it is unknown.
func (s Timestamp) Time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(int64(s), 0).UTC()
}

// Holder is a root that is not an image ebb may remove: a lease, a
// container's writable snapshot, an image of another namespace.
type Holder struct {
	Kind  string // "lease", "container", "image", "gc.root"
	Name  string // "namespace/name"
	Nodes []NodeID
}

// Graph is the runtime's own garbage collection graph. A node is freed once
// neither a Holder nor any remaining image's Roots lead to it.
type Graph struct {
	Nodes   []Node
	Holders []Holder
	// Expired are leases and image records that have expired. They keep nothing; Account
	// shows what they would keep.
	Expired []Holder
	Unread  []string // what could not be read: "ingests of k8s.io: why"
}

// Reason is why an image is kept or removed, as a stable word for metrics and
// logs. Detail in Decision explains it in words.
type Reason string

// Reasons to keep an image. If several apply, the first in this list is given.
const (
	KeptBlocked      Reason = "blocked"        // Snapshot.Blocked, an invalid policy or an inconsistent image
	KeptInUse        Reason = "in_use"         // UsedBy
	KeptWanted       Reason = "wanted"         // Wanted
	KeptPinned       Reason = "pinned"         // Pinned
	KeptSandbox      Reason = "sandbox"        // Sandbox
	KeptByRule       Reason = "keep_rule"      // Keep
	KeptUseUnknown   Reason = "use_unknown"    // Unread
	KeptPodsUnknown  Reason = "pods_unknown"   // whether a pod wants it is unknown: see Pods
	KeptYoung        Reason = "minimum_age"    // Arrived less than MinimumAge ago
	KeptFailed       Reason = "removal_failed" // RetryAt is in the future
	KeptNotNeeded    Reason = "not_needed"     // could go, but is not needed to reach the low threshold
	KeptFreesNothing Reason = "frees_nothing"  // could go, but others that stay hold all its layers
	KeptFutile       Reason = "futile"         // could go, but frees too little of a need that cannot be met
	KeptHold         Reason = "hold"           // could go, but the low threshold cannot be reached: see Hold
)

// Reasons to remove an image.
const (
	RemovedThreshold Reason = "threshold"   // needed to get from the high to the low threshold
	RemovedAge       Reason = "maximum_age" // unused for MaximumAge
	RemovedAsked     Reason = "asked"       // the space was asked for: see Ask
)

// Decision is the verdict on one image.
type Decision struct {
	ImageID     string
	Reason      Reason
	Detail      string // a sentence for people: who uses it, which rule, how much it frees
	FreesBytes  uint64 // computed: what this removal frees after those before it in the plan
	FreesInodes uint64
	// FreesLayer: at least one snapshot goes with it.
	FreesLayer bool
}

// Plan is the result of Decide: the removals, why all other images are kept, and when to
// decide again.
type Plan struct {
	Remove []Decision // in this order
	Keep   []Decision // every other image, ordered by ID

	// NeedBytes and NeedInodes are what had to be freed to reach the low thresholds
	// when the decision was made; 0 below the high threshold.
	NeedBytes, NeedInodes uint64

	// Next is the earliest time at which the answer changes by itself (an image
	// grows old enough); zero if only an event can change it.
	Next time.Time

	// Hold is not nil while the disk needs reclaim, is above its low threshold, and all
	// images that may go together would not reach it. The caller passes it to the next call
	// in Snapshot.Hold.
	Hold *Hold
}

// Hold is the state in which reclaim waits: everything that may go has been planned once, and
// that does not reach a low threshold. Without it, a disk that is full of other data would
// cost each image its place the moment it becomes unused. In a hold, images that become
// unused later are kept ([KeptHold]), until one of these happens:
//
//   - All candidates together reach the low thresholds: an ordinary run follows, without a
//     hold.
//   - The disk gets worse by one percent of its capacity since the hold began, or the other
//     dimension cannot reach its threshold either. Then everything that may go goes once
//     more, and the hold is renewed with a new reading.
//   - The users of an image that were unknown when the hold began are known: the same.
//   - Usage falls below the high threshold, and no run is in progress: the hold ends.
//
// Images that were already unused when the hold began may go at any time during it; those
// below MinimumAge once they are old enough. So a plan that was cut short by a failure or a
// cap on removals continues. If only one threshold cannot be reached, reclaim for the other
// one goes on. MaximumAge applies in a hold, too. A hold records what was needed, so that
// futile images stay as the need shrinks.
type Hold struct {
	Since time.Time

	Bytes, Inodes bool // which low thresholds cannot be reached

	AvailableBytes  uint64 // disk reading when the hold began or was last renewed
	InodesAvailable uint64

	// NeedBytes and NeedInodes are the need then, or the largest need since. FutileShare is a
	// share of them.
	NeedBytes, NeedInodes uint64

	// Unread are the IDs, sorted, of images that were kept by [KeptUseUnknown] when the hold began or was last renewed.
	Unread []string

	// EndsAtBytes and EndsAtInodes are how much must be available now for the images that may go to
	// reach the low threshold; 0 for a resource that can reach it.
	EndsAtBytes, EndsAtInodes uint64

	// Images are the IDs, sorted, of those that were unused at that reading, and still are or may be.
	// They may go as soon as they are old enough, however often the decision is repeated, so
	// that a plan that was cut short continues.
	Images []string

	Space []Space // what holds the space after this plan, largest first
}

// Final reports whether the users of all images that stay are known. Otherwise images may turn out to be enough
// without any change on the node.
func (h *Hold) Final() bool {
	return !slices.ContainsFunc(h.Space, func(s Space) bool { return s.By == string(KeptUseUnknown) })
}

// Holders of space other than images with a Reason.
const (
	SpaceOtherHolders = "other_holders" // leases, writable layers, other namespaces
	SpaceUnreferenced = "unreferenced"  // garbage the runtime has yet to collect
	SpaceNotImages    = "not_images"    // all else on the filesystem, including blocks reserved for root
)

// Space is one line of what takes the space. Space that several hold is counted once: for the
// first in the order of the reasons above, then of the constants SpaceOtherHolders and
// following.
type Space struct {
	By     string // a Reason, or one of the Space constants
	Bytes  uint64
	Inodes uint64
	Images int // how many images have this reason
}
