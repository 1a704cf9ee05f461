package volumes

import (
	"cmp"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Volume has the fields of a PersistentVolume that the collector needs beside its metadata.
type Volume struct {
	Phase  string
	Size   string    // spec.capacity.storage, a quantity
	Since  time.Time // status.lastPhaseTransitionTime
	Policy string    // spec.persistentVolumeReclaimPolicy
	Driver string    // spec.csi; empty: the data is elsewhere
	Handle string
	Other  string // the encoded source of a volume without spec.csi
	Claim  struct{ Namespace, Name, UID string }
	// From annotations: the provisioner, the CSI driver that replaced it, and the secret for
	// the deletion.
	ProvisionedBy, MigratedTo string
	Secret                    struct{ Namespace, Name string }
}

// Claim has what the collector needs of a PersistentVolumeClaim.
type Claim struct{ Volume string } // spec.volumeName

// Attachment has the fields of a VolumeAttachment that the collector needs.
type Attachment struct {
	Volume string // the PersistentVolume's name
	Handle string // of an inline volume, which has no PersistentVolume
	Node   string
}

// Drivers are the drivers of a CSINode.
type Drivers []string

// Class is the provisioner of a StorageClass. Of a CSIDriver and of a Node, the collector
// needs the metadata alone.
type Class string

// Uses has the fields of a Pod that affect volumes; see [Uses.Claim].
type Uses struct {
	Ended  bool
	Claims []string
}

// Claim reports whether a Pod that has not ended uses a claim of its namespace.
func (u Uses) Claim(name string) bool {
	return !u.Ended && slices.Contains(u.Claims, name)
}

// Config selects what is deleted. Everything else is reported.
type Config struct {
	// ReleasedFor is how long a volume must have been released. Default and minimum 24h.
	ReleasedFor time.Duration
	// Serve are the drivers whose volumes are deleted.
	Serve []string
	// Attachments and CSINodes enable the deletion of those whose Nodes are gone.
	Attachments, CSINodes bool
	// Quarantine is how long their Node must be missing, and its Lease expired or gone. Default 1h,
	// minimum 1s. No Pod may be bound to the Node.
	Quarantine time.Duration
	// MaxShare is the share of all Nodes that may be lost at once: see [nodes.Losses]. If more are
	// lost, what these Nodes left stays. 0 or less: the default.
	MaxShare float64
	// AtOnce is how many volume deletions of a driver may be in flight. Default 4.
	AtOnce int
}

const day = 24 * time.Hour

func (c Config) releasedFor() time.Duration { return max(c.ReleasedFor, day) }
func (c Config) atOnce() int                { return cmp.Or(max(c.AtOnce, 0), 4) }

const (
	// A driver that cannot serve is left alone for minPause, then for twice as long each
	// time, up to maxPause. A volume that was not deleted is likewise tried again, after
	// minRetry to maxRetry.
	minPause, maxPause = 5 * time.Second, 10 * time.Minute
	minRetry, maxRetry = time.Minute, time.Hour
)

// Name is the collector's name.
const Name gc.Collector = "volumes"

// Finalizer is the finalizer by which provisioners hold a PersistentVolume until its data is
// deleted.
const Finalizer = "external-provisioner.volume.kubernetes.io/finalizer"

// Released is the reason to delete a volume, now or later.
const Released gc.Reason = "released"

// NodeGone is the reason to delete an attachment or a CSINode, if Config asks for that.
const NodeGone gc.Reason = "node_gone"

// Reasons to keep a released volume that nothing deletes. An operator should look at it.
const (
	ProvisionerGone gc.Reason = "provisioner_gone" // no class or driver has the name of its provisioner
	DriverGone      gc.Reason = "driver_gone"      // neither a CSIDriver nor a CSINode has it
	NotProvisioned  gc.Reason = "not_provisioned"  // it names no provisioner, or its CSI source no handle
	OtherClaim      gc.Reason = "claim_of_another_life"
	Shared          gc.Reason = "handle_shared" // another volume has its handle
	ReclaimFailed   gc.Reason = "reclaim_failed"
	SecretUnclear   gc.Reason = "deletion_secret_unclear"
	SinceUnknown    gc.Reason = "released_since_unknown"
)

// Other reasons to keep a volume.
const (
	NotReleased       gc.Reason = "not_released"
	Retained          gc.Reason = "not_reclaimed_by_deletion" // its policy is not Delete
	LeftToProvisioner gc.Reason = "left_to_provisioner"       // its provisioner exists, and is not served
	ClaimThere        gc.Reason = "claim_exists"
	ClaimUnknown      gc.Reason = "claim_unknown" // it does not name its claim
	ClaimWants        gc.Reason = "claim_wants_it"
	Attached          gc.Reason = "attached"
	HeldByFinalizers  gc.Reason = "held_by_finalizers"
	InUse             gc.Reason = "used_by_pod" // found by a live read
	Changed           gc.Reason = "changed"     // found by a live read
)

// Reasons to keep any object.
const (
	Terminating gc.Reason = "terminating"
	Owned       gc.Reason = "owned"
	NodeThere   gc.Reason = "node_exists"
	NodesUnread gc.Reason = "nodes_not_read"
	TooManyLost gc.Reason = "too_many_nodes_lost"
	PodsBound   gc.Reason = "node_has_pods"   // its Node is gone, and the last live read found Pods bound to that Node
	Unread      gc.Reason = "type_not_read"   // it was not listed, or cannot be read now
	OtherUnread gc.Reason = "others_not_read" // a type that affects it was not listed, or cannot be read now
)
