package nodes

import (
	"cmp"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Node is what the collector wants to know of a Node beside its metadata.
type Node struct {
	Ready        bool      // the condition Ready is True
	Since        time.Time // that was so or not; without such a condition its creation
	Created      time.Time // metadata.creationTimestamp
	Heard        time.Time // the last heartbeat of all its conditions; zero: none
	ProviderID   string    // spec.providerID
	Labels       []string  // as key=value
	Taints       []string  // the same
	OutOfService bool      // it has the taint node.kubernetes.io/out-of-service
	Volumes      bool      // its status has volumes that are attached or in use
}

// Attachment is what it wants to know of a VolumeAttachment: spec.nodeName.
type Attachment struct{ Node string }

// Inventory is a list of machines, made by who has them.
type Inventory struct {
	Time     time.Time // when it was made, by its own word
	Machines []Machine
}

// Machine is one of them. One of both may be empty.
type Machine struct{ Name, ProviderID string }

// Config says which Nodes are reported, and which are deleted. Zero fields mean the
// defaults.
type Config struct {
	// NotReadyFor is how long a Node has not been ready, without a sign of life, when it is
	// stale. Default 72h.
	NotReadyFor time.Duration
	// Label and Taint mark Nodes that may be deleted: key, or key=value. One of both does.
	// Without either nothing is deleted.
	Label, Taint string
	// Inventory says that there is one. Without, nothing is deleted.
	Inventory bool
	// MaxAge is how old an inventory may be. Default 30m.
	MaxAge time.Duration
	// MinShare of the machines of the last inventory, and of the Nodes there are, must be
	// in one; all but one are enough. Default 0.8.
	MinShare float64
	// MaxShare of the Nodes may be deleted within an hour; one always may. Default 0.1.
	MaxShare float64
}

func (c Config) notReadyFor() time.Duration { return cmp.Or(max(c.NotReadyFor, 0), 72*time.Hour) }
func (c Config) maxAge() time.Duration      { return cmp.Or(max(c.MaxAge, 0), 30*time.Minute) }
func (c Config) minShare() float64          { return cmp.Or(max(c.MinShare, 0), 0.8) }
func (c Config) maxShare() float64          { return cmp.Or(max(c.MaxShare, 0), 0.1) }

// has says whether what is wanted, a key or key=value, is among pairs.
func has(pairs []string, want string) bool {
	for _, pair := range pairs {
		if key, _, _ := strings.Cut(pair, "="); want != "" && (pair == want || key == want) {
			return true
		}
	}
	return false
}

const (
	// WatchFor is how long all must have been known, and the Node have been seen, without a
	// sign of life.
	WatchFor = 10 * time.Minute
	// FreshFor is how long it is believed that a machine is not in the inventory, counted
	// from when that was asked for; and that its Lease was as it is known.
	FreshFor = 2 * time.Minute
	// AskAgain is when an inventory is asked for again that did not lead to a deletion.
	AskAgain = 10 * time.Minute
	// Ahead is how far an inventory's clock may be ahead of the API server's.
	Ahead = time.Minute
	// window is the time within which MaxShare may be deleted.
	window = time.Hour
	// leastPause is the pause after the first inventory that could not be read; it doubles,
	// up to AskAgain.
	minPause = 5 * time.Second
)

// Name is the collector's.
const Name gc.Collector = "nodes"

// NotInInventory is why a Node goes.
const NotInInventory gc.Reason = "not_in_inventory"

// Why a Node is kept that is not stale, or of which that is not known.
const (
	Ready        gc.Reason = "ready"
	NotYet       gc.Reason = "not_ready" // not for long enough, or something on it gave a sign of life
	Terminating  gc.Reason = "terminating"
	TimeMissing  gc.Reason = "time_missing" // since when it is not ready, nobody knows
	NotRead      gc.Reason = "type_not_read"
	LeasesUnread gc.Reason = "leases_not_read"
)

// Why a Node is kept that is stale. Somebody should look.
const (
	NotMarked         gc.Reason = "stale_not_marked"
	NoInventory       gc.Reason = "stale_no_inventory"
	AttachmentsUnread gc.Reason = "stale_attachments_not_read"
	VolumesAttached   gc.Reason = "stale_volumes_attached"
	Watched           gc.Reason = "stale_being_watched"     // not for WatchFor
	AskingInventory   gc.Reason = "stale_asking_inventory"  // it is asked for when it is due
	InInventory       gc.Reason = "stale_in_inventory"      // the machine is there
	TooMany           gc.Reason = "stale_too_many_at_once"  // MaxShare
	InventoryUnknown  gc.Reason = "inventory_unknown"       // it could not be read
	InventoryOld      gc.Reason = "inventory_old"           // beyond MaxAge
	InventoryFuture   gc.Reason = "inventory_in_the_future" // its time is
	InventoryEmpty    gc.Reason = "inventory_empty"
	InventoryShrunken gc.Reason = "inventory_shrunken"    // MinShare
	InventoryPartial  gc.Reason = "inventory_lacks_ready" // it does not have a Node that is ready
	InventoryUnproven gc.Reason = "inventory_unproven"    // no Node is ready that it could have
)

// Stale are all reasons that a stale Node can have.
var Stale = []gc.Reason{
	NotInInventory, NotMarked, NoInventory, AttachmentsUnread, VolumesAttached, Watched, AskingInventory, InInventory, TooMany,
	InventoryUnknown, InventoryOld, InventoryFuture, InventoryEmpty, InventoryShrunken, InventoryPartial, InventoryUnproven,
}
