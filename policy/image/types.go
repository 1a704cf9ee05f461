package image

import (
	"math"
	"time"
)

// Policy is what the operator asked for. Percentages are of the filesystem's
// capacity, as the kubelet counts them (see [Disk.UsedPercent]).
type Policy struct {
	HighPercent int // reclaim starts when used reaches it; 1..100, 100 switches it off
	LowPercent  int // reclaim ends at or below it; 0..HighPercent-1

	InodesHighPercent int // the same two thresholds for inodes; both 0 switch them off too
	InodesLowPercent  int

	MinimumAge time.Duration // an image younger than this stays; >= 0
	MaximumAge time.Duration // an image unused for this long goes whatever the disk says; 0 is off

	// FutileShare is a percentage, 0..100: when a low threshold cannot be reached, images
	// stay that together would free no more than this of what is needed.
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

// Add stays at the largest number rather than begin anew.
func (s Size) Add(t Size) Size { return Size{satAdd(s.Bytes, t.Bytes), satAdd(s.Inodes, t.Inodes)} }

// Sub is 0 where it would be negative.
func (s Size) Sub(t Size) Size { return Size{satSub(s.Bytes, t.Bytes), satSub(s.Inodes, t.Inodes)} }

// Snapshot is everything a decision rests on. Decide reads it and keeps
// nothing.
type Snapshot struct {
	Policy Policy
	Disk   Disk
	Images []Image
	Graph  Graph

	Pods Pods // how far Image.Wanted can be relied on

	// Blocked, when not empty, says why nothing at all may be removed now (an
	// unknown sandbox image, for instance).
	Blocked string

	// ReclaimingBytes and ReclaimingInodes say that a run for that threshold has
	// begun and has not reached its low threshold yet: the high threshold no longer
	// matters. They are for a caller that decides again in the middle of a run;
	// it clears them when the run ends, also when it ends in a hold.
	ReclaimingBytes, ReclaimingInodes bool

	// Hold is what the previous decision returned in Plan.Hold; nil if none.
	Hold *Hold
}

// Image is one image as the CRI counts them: one ID, any number of references.
type Image struct {
	ID         string   // the config digest, "sha256:…"
	References []string // every name the runtime knows it by

	UsedBy  []string // containers, snapshots and sandboxes that use it, in any namespace
	Wanted  []string // pods bound to this node that will use it
	Pinned  bool     // the runtime says: never
	Sandbox bool     // the runtime's sandbox ("pause") image
	Keep    string   // the operator's rule that matched one of References, or ""

	LastUsed time.Time // zero: unknown, which counts as recent (Observed)
	Arrived  time.Time // when it was pulled or imported; what MinimumAge counts from
	Observed time.Time // when ebb first saw it; MaximumAge removes nothing before Observed+MaximumAge

	RetryAt time.Time // after a removal that failed: left alone until then

	Roots []NodeID // what the image's records keep alive in Snapshot.Graph

	NominalBytes uint64 // what the CRI says that it takes; only Account shows it, no decision rests on it
}

// NodeID is an index into Graph.Nodes.
type NodeID uint32

// NodeKind tells what a graph node stands for.
type NodeKind uint8

// The kinds of graph nodes.
const (
	NodeRecord   NodeKind = iota // metadata only: keeps other nodes, weighs nothing
	NodeBlob                     // bytes in the content store, shared by all namespaces
	NodeSnapshot                 // an unpacked layer, private to a namespace and snapshotter
)

// Node is something that takes space, or keeps something else that does.
type Node struct {
	Kind    NodeKind
	Partial bool      // a blob that is not complete: an ingest
	Created Timestamp // for Account only
	Bytes   uint64
	Inodes  uint64
	Refs    []NodeID // what stays as long as this node stays; cycles are allowed
}

// Timestamp is a time in whole Unix seconds: there are hundreds of thousands of nodes,
// and each has four bytes to spare. Zero is a time that is not known.
type Timestamp uint32

// TimestampOf is zero for a time that does not fit.
func TimestampOf(t time.Time) Timestamp {
	if seconds := t.Unix(); seconds > 0 && seconds <= math.MaxUint32 {
		return Timestamp(seconds)
	}
	return 0
}

// Time is the zero time where it is not known.
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
	// Expired are leases and image records past their time. They keep nothing; Account
	// shows what they would.
	Expired []Holder
	Unread  []string // what else there is, and could not be read: "ingests of k8s.io: why"
}

// Reason is why an image is kept or removed, as a stable word for metrics and
// logs. Detail in Decision says the rest in words.
type Reason string

// Why an image stays. Where several hold, the first of this list is given.
const (
	KeptBlocked      Reason = "blocked"        // Snapshot.Blocked, a policy that makes no sense, or an image that does not
	KeptInUse        Reason = "in_use"         // UsedBy
	KeptWanted       Reason = "wanted"         // Wanted
	KeptPinned       Reason = "pinned"         // Pinned
	KeptSandbox      Reason = "sandbox"        // Sandbox
	KeptByRule       Reason = "keep_rule"      // Keep
	KeptPodsUnknown  Reason = "pods_unknown"   // nobody knows whether a pod wants it: see Pods
	KeptYoung        Reason = "minimum_age"    // Arrived less than MinimumAge ago
	KeptFailed       Reason = "removal_failed" // RetryAt is still to come
	KeptNotNeeded    Reason = "not_needed"     // could go, but the disk is low enough without
	KeptFreesNothing Reason = "frees_nothing"  // could go, but every layer of it is held by images that stay
	KeptFutile       Reason = "futile"         // could go, but would free next to nothing of a need that cannot be met: FutileShare
	KeptHold         Reason = "hold"           // could go, but all that could would not reach the low threshold: see Hold
)

// Why an image goes.
const (
	RemovedThreshold Reason = "threshold"   // needed to get from the high to the low threshold
	RemovedAge       Reason = "maximum_age" // unused for MaximumAge
	RemovedAsked     Reason = "asked"       // somebody asks for the space: see Ask
)

// Decision is the verdict on one image.
type Decision struct {
	ImageID     string
	Reason      Reason
	Detail      string // a sentence for people: who uses it, which rule, how much it frees
	FreesBytes  uint64 // computed: what goes when this one goes after those before it in the plan
	FreesInodes uint64
	// FreesLayer: at least one snapshot goes with it.
	FreesLayer bool
}

// Plan is what Decide wants done, and when it wants to be asked again.
type Plan struct {
	Remove []Decision // in this order
	Keep   []Decision // every other image, ordered by ID

	// NeedBytes and NeedInodes are what had to be freed to reach the low thresholds
	// when the decision was made; 0 below the high threshold.
	NeedBytes, NeedInodes uint64

	// Next is the earliest time at which the answer changes by itself (an image
	// grows old enough); zero if only an event can change it.
	Next time.Time

	// Hold is not nil while the disk is above its low threshold, wants reclaim, and
	// all that may go would not bring it there. To be handed back in the next
	// Snapshot.
	Hold *Hold
}

// Hold says that reclaim did what it could and waits: everything that may go has been
// planned once. A disk that is full of something else must not cost each image its place
// the moment it falls out of use. So images that become unused later stay ([KeptHold]),
// until
//
//   - all candidates do reach the low thresholds: an ordinary run, no hold;
//   - the disk is a percentage point of its capacity worse than when the hold began, or the
//     other dimension cannot reach its threshold either: everything that may go goes once
//     more, and the reading is renewed;
//   - usage falls below the high threshold, and no run is on: the hold is over.
//
// Images that were already unused when the hold began may go at any time during it, those
// below MinimumAge once they are older: a plan cut short by a failure or a cap on removals
// is taken up again. A threshold that can be reached is served also while the other one
// holds. MaximumAge goes on in a hold. A hold remembers what was needed, so that futile
// images stay as the need shrinks.
type Hold struct {
	Since time.Time

	Bytes, Inodes bool // which low thresholds cannot be reached

	AvailableBytes  uint64 // disk reading when the hold began or was last renewed
	InodesAvailable uint64

	// What was needed then, or since if that was more: FutileShare is of this.
	NeedBytes, NeedInodes uint64

	// What would have to be available now for the images that may go to reach the low threshold; 0 for a
	// resource that the hold is not about.
	EndsAtBytes, EndsAtInodes uint64

	// Images are the IDs, in order, of those that were unused at that reading
	// and still are. They may go, as soon as they are old enough, however often
	// the decision is repeated: a plan cut short is taken up again.
	Images []string

	Space []Space // what holds the space once this plan is done, largest first
}

// What holds space besides images with a Reason.
const (
	SpaceOtherHolders = "other_holders" // leases, writable layers, other namespaces
	SpaceUnreferenced = "unreferenced"  // garbage the runtime has yet to collect
	SpaceNotImages    = "not_images"    // everything else on the filesystem, what it reserves for root included
)

// Space is one part of the answer to "what takes the space". What several
// hold is counted once, for the first in the order of the reasons above, then
// of the constants SpaceOtherHolders and following.
type Space struct {
	By     string // a Reason, or one of the Space constants
	Bytes  uint64
	Inodes uint64
	Images int // how many images have this reason
}
