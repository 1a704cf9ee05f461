package volumes

import (
	"cmp"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Volume is what the collector wants to know of a PersistentVolume beside its metadata.
type Volume struct {
	Phase  string
	Since  time.Time // status.lastPhaseTransitionTime
	Policy string    // spec.persistentVolumeReclaimPolicy
	Driver string    // spec.csi; empty: the data is elsewhere
	Handle string
	Other  string // the source, as it is encoded, of one without spec.csi
	Claim  struct{ Namespace, Name, UID string }
	// By annotations: who made it, who took its driver's place, and what deleting needs.
	ProvisionedBy, MigratedTo string
	Secret                    struct{ Namespace, Name string }
}

// Claim is what the collector wants to know of a PersistentVolumeClaim.
type Claim struct{ Volume string } // spec.volumeName

// Attachment is what the collector wants to know of a VolumeAttachment.
type Attachment struct {
	Volume string // the PersistentVolume's name
	Handle string // of a volume that is none
	Node   string
}

// Drivers are those that a CSINode has.
type Drivers []string

// Class is the provisioner of a StorageClass. Of a CSIDriver and of a Node their metadata
// are wanted alone.
type Class string

// Uses is what of a Pod bears on volumes; see [Uses.Claim].
type Uses struct {
	Ended  bool
	Claims []string
}

// Claim says whether a Pod that has not ended uses a claim of its namespace.
func (u Uses) Claim(name string) bool {
	for _, c := range u.Claims {
		if c == name && !u.Ended {
			return true
		}
	}
	return false
}

// Config says what is deleted. All else is reported.
type Config struct {
	// ReleasedFor is how long a volume must have been released. Default and least 24h.
	ReleasedFor time.Duration
	// Serve are the drivers by which volumes are deleted.
	Serve []string
	// Attachments and CSINodes of Nodes that are gone are deleted.
	Attachments, CSINodes bool
	// Quarantine is how long their Node must be missing, and its Lease expired or gone. Default 1h,
	// and 1s at least. No Pod may be bound to the Node.
	Quarantine time.Duration
	// MaxShare of all Nodes may be lost at once: see [nodes.Losses]. If more are, what these Nodes have
	// left stays. 0 or less: the default.
	MaxShare float64
	// AtOnce is how many volumes may be on their way. Default 4.
	AtOnce int
}

const day = 24 * time.Hour

func (c Config) releasedFor() time.Duration { return max(c.ReleasedFor, day) }
func (c Config) atOnce() int                { return cmp.Or(max(c.AtOnce, 0), 4) }

const (
	// A driver that cannot serve is left alone for leastPause, then for twice as long each
	// time, up to maxPause; so is a volume that was not deleted, from minRetry to
	// maxRetry.
	minPause, maxPause = 5 * time.Second, 10 * time.Minute
	minRetry, maxRetry = time.Minute, time.Hour
)

// Name is the collector's.
const Name gc.Collector = "volumes"

// Finalizer is what provisioners hold a PersistentVolume by until its data is deleted.
const Finalizer = "external-provisioner.volume.kubernetes.io/finalizer"

// Released is why a volume goes, be that later.
const Released gc.Reason = "released"

// NodeGone is why an attachment or a CSINode goes, if Config wants that.
const NodeGone gc.Reason = "node_gone"

// Why a volume is kept that was released, and that nobody will ever delete unless somebody
// looks.
const (
	ProvisionerGone gc.Reason = "provisioner_gone" // who made it: neither a class nor a driver of that name is there
	DriverGone      gc.Reason = "driver_gone"      // no CSIDriver, and no CSINode has it
	NotProvisioned  gc.Reason = "not_provisioned"  // nobody says that he made it
	OtherClaim      gc.Reason = "claim_of_another_life"
	Shared          gc.Reason = "handle_shared" // another volume has its handle
	ReclaimFailed   gc.Reason = "reclaim_failed"
	SecretUnclear   gc.Reason = "deletion_secret_unclear"
	SinceUnknown    gc.Reason = "released_since_unknown"
)

// Why a volume is kept otherwise.
const (
	NotReleased       gc.Reason = "not_released"
	Retained          gc.Reason = "not_reclaimed_by_deletion" // its policy is not Delete
	LeftToProvisioner gc.Reason = "left_to_provisioner"       // who made it is there, and not served
	ClaimThere        gc.Reason = "claim_exists"
	ClaimUnknown      gc.Reason = "claim_unknown" // it does not say whose it was
	ClaimWants        gc.Reason = "claim_wants_it"
	Attached          gc.Reason = "attached"
	HeldByFinalizers  gc.Reason = "held_by_finalizers"
	InUse             gc.Reason = "used_by_pod" // a live read says so
	Changed           gc.Reason = "changed"     // the same
)

// Why anything is kept.
const (
	Terminating gc.Reason = "terminating"
	Owned       gc.Reason = "owned"
	NodeThere   gc.Reason = "node_exists"
	NodesUnread gc.Reason = "nodes_not_read"
	TooManyLost gc.Reason = "too_many_nodes_lost"
	Unread      gc.Reason = "type_not_read"   // it was not listed, or cannot be read now
	OtherUnread gc.Reason = "others_not_read" // what bears on it was not, or cannot
)
