package nodes

import (
	"cmp"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Node has the fields of a Node that the collector needs beside its metadata.
type Node struct {
	Ready        bool      // the condition Ready is True
	Since        time.Time // since when Ready is so; without such a condition its creation
	Created      time.Time // metadata.creationTimestamp
	Heard        time.Time // the last heartbeat of all its conditions; zero: none
	ProviderID   string    // spec.providerID
	Labels       []string  // as key=value
	Taints       []string  // the same
	OutOfService bool      // it has the taint node.kubernetes.io/out-of-service
	Volumes      bool      // its status has volumes that are attached or in use
}

// Attachment has what the collector needs of a VolumeAttachment: spec.nodeName.
type Attachment struct{ Node string }

// Inventory is a list of machines, from the system that manages them.
type Inventory struct {
	Time     time.Time // when it was made, by its own account
	Machines []Machine
}

// Machine is one machine of an Inventory. One of the two fields may be empty.
type Machine struct{ Name, ProviderID string }

// Config configures which Nodes are reported, and which are deleted. Zero fields mean the
// defaults.
type Config struct {
	// NotReadyFor is how long a Node must not have been ready, without a sign of life, to be
	// stale. Default 72h.
	NotReadyFor time.Duration
	// Label and Taint mark Nodes that may be deleted, as key or key=value. One of the two is
	// enough. If both are empty, nothing is deleted.
	Label, Taint string
	// Inventory is whether there is one. Without an inventory, nothing is deleted.
	Inventory bool
	// MaxAge is how old an inventory may be. Default 30m.
	MaxAge time.Duration
	// MinShare is how much an inventory must have: this share of the number of machines in
	// the last one, and of the existing Nodes. All but one are always enough. Default 0.8.
	MinShare float64
	// MaxShare is the share of all Nodes that may be deleted within an hour. One Node always
	// may, and no more in the first hour of a process. Default 0.1.
	MaxShare float64
}

func (c Config) notReadyFor() time.Duration { return cmp.Or(max(c.NotReadyFor, 0), 72*time.Hour) }
func (c Config) maxAge() time.Duration      { return cmp.Or(max(c.MaxAge, 0), 30*time.Minute) }
func (c Config) minShare() float64          { return cmp.Or(max(c.MinShare, 0), 0.8) }
func (c Config) maxShare() float64          { return cmp.Or(max(c.MaxShare, 0), 0.1) }

// has reports whether want, a key or key=value, is among pairs; false if want is "".
func has(pairs []string, want string) bool {
	for _, pair := range pairs {
		if key, _, _ := strings.Cut(pair, "="); want != "" && (pair == want || key == want) {
			return true
		}
	}
	return false
}

const (
	// WatchFor is how long all types must have been readable, and the Node known, without a
	// sign of life.
	WatchFor = 10 * time.Minute
	// FreshFor is how long it is believed that an inventory does not have a machine, and that
	// the Lease read for it has not changed. It counts from when the inventory was asked for.
	FreshFor = 2 * time.Minute
	// AskAgain is when an inventory that did not lead to a deletion is asked for again.
	AskAgain = 10 * time.Minute
	// Ahead is how far an inventory's clock may be ahead of the API server's.
	Ahead = time.Minute
	// window is the time within which MaxShare may be deleted.
	window = time.Hour
	// minPause is the pause after the first inventory that could not be read. It doubles, up
	// to AskAgain.
	minPause = 5 * time.Second
)

// Name is the collector's name.
const Name gc.Collector = "nodes"

// NotInInventory is the reason to delete a Node.
const NotInInventory gc.Reason = "not_in_inventory"

// Reasons to keep a Node that is not stale, or not known to be.
const (
	Ready        gc.Reason = "ready"
	NotYet       gc.Reason = "not_ready" // not for long enough, or something on it gave a sign of life
	Terminating  gc.Reason = "terminating"
	TimeMissing  gc.Reason = "time_missing" // since when it is not ready is unknown
	NotRead      gc.Reason = "type_not_read"
	LeasesUnread gc.Reason = "leases_not_read"
)

// Reasons to keep a stale Node. An operator should look at it.
const (
	NotMarked         gc.Reason = "stale_not_marked"
	NoInventory       gc.Reason = "stale_no_inventory"
	AttachmentsUnread gc.Reason = "stale_attachments_not_read"
	VolumesAttached   gc.Reason = "stale_volumes_attached"
	Watched           gc.Reason = "stale_being_watched"     // for less than WatchFor
	AskingInventory   gc.Reason = "stale_asking_inventory"  // it is asked for when it is due
	InInventory       gc.Reason = "stale_in_inventory"      // the machine exists
	TooMany           gc.Reason = "stale_too_many_at_once"  // MaxShare
	InventoryUnknown  gc.Reason = "inventory_unknown"       // it could not be read
	InventoryOld      gc.Reason = "inventory_old"           // beyond MaxAge
	InventoryFuture   gc.Reason = "inventory_in_the_future" // its time is later than Ahead allows
	InventoryEmpty    gc.Reason = "inventory_empty"
	InventoryShrunken gc.Reason = "inventory_shrunken"    // MinShare
	InventoryPartial  gc.Reason = "inventory_lacks_ready" // it lacks a ready Node
	InventoryUnproven gc.Reason = "inventory_unproven"    // no ready Node can prove it
)

// Stale are all reasons that a stale Node can have.
var Stale = []gc.Reason{
	NotInInventory, NotMarked, NoInventory, AttachmentsUnread, VolumesAttached, Watched, AskingInventory, InInventory, TooMany,
	InventoryUnknown, InventoryOld, InventoryFuture, InventoryEmpty, InventoryShrunken, InventoryPartial, InventoryUnproven,
}
