package metadata

import "github.com/ebb-agent/ebb/policy/gc"

// EventKind says what an Event reports.
type EventKind uint8

// What following a type reports, in order. See [Follower] for the order.
const (
	Listing    EventKind = iota + 1 // a list begins: what it does not name until Synced is missing
	Observed                        // Object is there, like this
	Synced                          // the list is complete; or, without Listing before it, the watch that was Unreadable goes on without a gap
	Deleted                         // Object went: a DELETED event
	Progress                        // a bookmark: everything up to ResourceVersion was reported
	Unreadable                      // the type cannot be listed or watched at present, because of Err
	Away                            // the API server was away for long: proof of absence from before may be of another history
	WentBack                        // resourceVersions went backwards: etcd was restored. A list follows
	Skipped                         // Object cannot be followed, because of Err; only of other API servers
)

func (k EventKind) String() string {
	names := [...]string{"nothing", "listing", "observed", "synced", "deleted", "progress", "unreadable", "away", "went-back", "skipped"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown event"
}

// Event is one thing that following a type reports.
type Event struct {
	Kind            EventKind
	Object          gc.Object // of Observed and Deleted
	Fields          any       // of Object: what [Fields] made of it
	Generation      int64     // of Object; 0: it has none
	ResourceVersion string    // of Synced and Progress; of Listing that up to which everything was reported before, if it is known
	Absences        uint64    // of Away: how many there were by now
	Err             error     // of Unreadable and Skipped
}

// Fields picks from an object what is not in its metadata. It gets the protobuf message of
// the whole object, which is valid during the call only. If it cannot, the event has none:
// its metadata holds all the same.
type Fields func(message []byte) (any, error)

// maxBatch is how many events a sink is given at most.
const maxBatch = 512
