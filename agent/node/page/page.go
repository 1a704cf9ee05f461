// Package page has the JSON types of the requests and answers of the agent's admin socket. It has
// types alone, so that a command can use them without the agent.
//
// Sizes are in bytes and inodes; times are RFC 3339, by ebb's clock, which runs like the wall clock
// but never jumps. Names of images, pods and files are as their authors wrote them: escape them
// before you show them in a terminal. Fields are added, never renamed or given another meaning.
//
//	GET  /status            Status
//	GET  /images            Images
//	GET  /why?image=NAME    Why        404: no such image; 409: NAME is not one image alone
//	POST /plan              PlanRequest -> Plan
//	POST /reclaim           ReclaimRequest -> a ReclaimEvent a line, until one with Result
//	GET  /du                Usage
//	GET  /history           History    ?limit=N, ?before=Next of the page before
//	GET  /past              Past
//	POST /pause             PauseRequest -> Pause
//	POST /resume            Resume
//	GET  /containers, /writers, /heat, /metrics, /healthz, /readyz
//
// An error is an [Error], with a status of 400 (invalid request), 403, 404, 409 (the plan changed,
// or another run is active) or 503 (the agent does not know the answer now).
package page

import "time"

// Header names of each request.
const (
	HeaderCaller  = "Ebb-Caller"  // who asks, by their own account
	HeaderVersion = "Ebb-Version" // of the command; in an answer, of the agent
)

// Error is why a request failed.
type Error struct {
	Error string `json:"error"`
	Plan  *Plan  `json:"plan,omitempty"` // with 409 to /reclaim: the plan as it is now
}

// Size is what something takes.
type Size struct {
	Bytes  uint64 `json:"bytes"`
	Inodes uint64 `json:"inodes"`
}

// Status is the state of the agent and its node.
type Status struct {
	Time     time.Time `json:"time"`
	Node     string    `json:"node"` // NODE_NAME, or the host's name
	Version  string    `json:"version"`
	Mode     string    `json:"mode"`             // "observe" or "enforce"
	Paused   *Pause    `json:"paused,omitempty"` // absent: not paused
	Ready    bool      `json:"ready"`
	NotReady string    `json:"notReady,omitempty"` // why

	// Degraded are the names of the active conditions: what the agent does without for now.
	Degraded []string `json:"degraded"`

	Filesystems   []Filesystem `json:"filesystems"` // all that are watched; the one with the images first
	Images        Summary      `json:"images"`
	ImagesUnknown string       `json:"imagesUnknown,omitempty"` // why Images is empty, if the images are not known now
	Looked        *time.Time   `json:"looked,omitempty"`        // when the images were listed last; absent: not yet
	Running       bool         `json:"running"`                 // images are being removed right now
	LastRun       *Run         `json:"lastRun,omitempty"`       // the latest that removed, or would have removed, something; absent: none since the agent started

	Observed *Observed `json:"observed,omitempty"` // in mode observe
}

// Summary counts images.
type Summary struct {
	Total       int  `json:"total"`
	Unused      int  `json:"unused"`      // nothing protects them now
	Reclaimable Size `json:"reclaimable"` // what all unused images would free together
	PulledAgain int  `json:"pulledAgain"` // known images that came back within a day of their removal by ebb
}

// Filesystem is a watched filesystem, as it was last read.
type Filesystem struct {
	Names               []string `json:"names"` // what is on it: images, content, containers, kubelet, pod logs
	Path                string   `json:"path"`
	Type                string   `json:"type"`
	Device              string   `json:"device"`            // MAJOR:MINOR
	Project             *uint32  `json:"project,omitempty"` // the figures are of this project's quota, not of the filesystem
	Kernel              bool     `json:"kernel"`            // the kernel reports when it fills; otherwise it is polled
	CapacityBytes       uint64   `json:"capacityBytes"`
	AvailableBytes      uint64   `json:"availableBytes"`
	UsedPercent         int      `json:"usedPercent"`
	HighPercent         int      `json:"highPercent"`
	LowPercent          int      `json:"lowPercent"` // 0: no images are there
	Inodes              uint64   `json:"inodes"`     // 0: it has no fixed number
	InodesAvailable     uint64   `json:"inodesAvailable"`
	InodesUsedPercent   int      `json:"inodesUsedPercent"`
	InodesHighPercent   int      `json:"inodesHighPercent"`
	InodesLowPercent    int      `json:"inodesLowPercent"`
	FullInSeconds       *float64 `json:"fullInSeconds,omitempty"` // at the pace of the last minutes; absent: it does not fill
	InodesGoneInSeconds *float64 `json:"inodesGoneInSeconds,omitempty"`
	Hold                *Hold    `json:"hold,omitempty"`
}

// Hold is why the low threshold cannot be reached: what holds the space once every removable image
// is gone.
type Hold struct {
	Since  time.Time `json:"since"`
	Bytes  bool      `json:"bytes"` // which threshold cannot be reached
	Inodes bool      `json:"inodes"`
	HeldBy []HeldBy  `json:"heldBy"` // largest first
}

// HeldBy is one holder of space.
type HeldBy struct {
	By     string `json:"by"` // the reason why images stay, or "other_holders", "unreferenced", "not_images"
	Images int    `json:"images"`
	Size
}

// Run is a reclaim run that has ended.
type Run struct {
	Ended      time.Time `json:"ended"`
	Trigger    string    `json:"trigger"` // threshold, age, asked
	Result     string    `json:"result"`
	Removed    int       `json:"removed"` // in mode observe: would have been removed
	Failed     int       `json:"failed"`
	FreedBytes uint64    `json:"freedBytes"` // as measured; in mode observe: as computed
}

// Observed is what an agent in mode observe has counted.
type Observed struct {
	Since  time.Time  `json:"since"`
	Ebb    ObservedBy `json:"ebb"`    // what it would have done
	Others ObservedBy `json:"others"` // what the kubelet, or any other actor, did
}

// ObservedBy is the counts of one side, ebb or others.
type ObservedBy struct {
	Images       int     `json:"images"`       // removed
	Freed        Size    `json:"freed"`        // by those, as computed
	PulledAgain  int     `json:"pulledAgain"`  // of those, needed again within a day
	PulledBytes  uint64  `json:"pulledBytes"`  // what pulls of these take at most
	AboveSeconds float64 `json:"aboveSeconds"` // for which the disk was above its high threshold
}

// Images is every image of the node, and what all of them take.
type Images struct {
	Time   time.Time `json:"time"`
	Looked time.Time `json:"looked"` // when they were listed
	Mode   string    `json:"mode"`
	Paused *Pause    `json:"paused,omitempty"`
	Images []Image   `json:"images"` // those to remove, in that order, then the others, least recently used first
	Totals Totals    `json:"totals"`
}

// Totals is where the store's space is: each byte in one place.
type Totals struct {
	Images       Size     `json:"images"` // what images refer to
	Others       []Entry  `json:"others"` // what only containers, leases and other namespaces refer to
	Nobody       []Entry  `json:"nobody"` // what nothing refers to
	Total        Size     `json:"total"`
	EmptyImages  int      `json:"emptyImages"`  // records of images whose content is gone
	KubeletBytes uint64   `json:"kubeletBytes"` // what the kubelet believes that all images take
	Unread       []string `json:"unread"`       // what could not be read and is missing here
}

// Entry is one place of [Totals].
type Entry struct {
	By string `json:"by"` // see docs/account.md
	Size
	Count      int        `json:"count"`
	Unmeasured int        `json:"unmeasured"`       // layers whose size the runtime does not know
	Oldest     *time.Time `json:"oldest,omitempty"` // when the oldest of it was created
}

// Image is one image with the latest decision on it.
type Image struct {
	ID          string     `json:"id"`         // "sha256:…", of its configuration
	References  []string   `json:"references"` // sorted
	Verdict     string     `json:"verdict"`    // "keep" or "remove"
	Reason      string     `json:"reason"`
	Detail      string     `json:"detail"`     // a sentence
	FreesBytes  uint64     `json:"freesBytes"` // what its removal frees after those before it
	FreesInodes uint64     `json:"freesInodes"`
	LastUsed    *time.Time `json:"lastUsed,omitempty"` // absent: never seen in use
	Arrived     time.Time  `json:"arrived"`
	UsedBy      []string   `json:"usedBy,omitempty"`      // containers, snapshots and sandboxes that use it now
	LastUser    string     `json:"lastUser,omitempty"`    // the latest user that a list of the containers has shown: pod NAMESPACE/NAME, or container NAMESPACE/ID
	PulledAgain int        `json:"pulledAgain,omitempty"` // times it came back within a day of its removal by ebb

	Own    Size `json:"own"`    // what its removal alone frees
	Shared Size `json:"shared"` // the part that others need, too
	Total  Size `json:"total"`
	// Unmeasured is how many of its layers count as nothing, because the runtime does not know their size.
	Unmeasured   int      `json:"unmeasured,omitempty"`
	KubeletBytes uint64   `json:"kubeletBytes"`          // what the kubelet believes that it takes
	ReadPercent  *float64 `json:"readPercent,omitempty"` // the share of its bytes that was ever read; absent: unknown
}

// Why explains the decision on one image.
type Why struct {
	Time   time.Time `json:"time"`
	Looked time.Time `json:"looked"`
	Mode   string    `json:"mode"`
	Paused *Pause    `json:"paused,omitempty"`
	Image  Image     `json:"image"`
	Rules  []Rule    `json:"rules"` // in the order of evaluation
	Place  int       `json:"place"` // its place in the order of removal, from 1; 0: it may not be removed
	Of     int       `json:"of"`
	InTurn Size      `json:"inTurn"` // what its removal frees once those before it are gone

	History []HistoryEntry `json:"history"` // the latest few entries about it, newest first
}

// Rule is the result of one rule for an image.
type Rule struct {
	Reason  string     `json:"reason"` // the verdict's reason if this is the first rule that holds
	State   string     `json:"state"`  // "holds", "does not hold", "not reached"
	Text    string     `json:"text"`
	Changes *time.Time `json:"changes,omitempty"` // when the answer changes by itself
}

// PlanRequest asks what would be removed. Of Free, FreeInodes and ToPercent one may be set; without
// any, the thresholds decide.
type PlanRequest struct {
	FreeBytes       uint64 `json:"freeBytes,omitempty"` // so much more than is available now
	FreeInodes      uint64 `json:"freeInodes,omitempty"`
	ToPercent       *int   `json:"toPercent,omitempty"` // until that much is used, 0 to 100
	ToInodesPercent *int   `json:"toInodesPercent,omitempty"`
	Config          string `json:"config,omitempty"` // a configuration file (YAML): what would be removed with it; /plan alone
}

// Plan is what would be removed, and what stays.
type Plan struct {
	Time       time.Time `json:"time"`
	Looked     time.Time `json:"looked"`
	Mode       string    `json:"mode"`
	Paused     *Pause    `json:"paused,omitempty"`
	Digest     string    `json:"digest"`         // of the images to remove, their order and reasons
	Filesystem string    `json:"filesystem"`     // its path
	Need       Size      `json:"need"`           // what has to become available
	Frees      Size      `json:"frees"`          // what all of Remove frees together
	Most       Size      `json:"most"`           // what could be freed at most
	Hold       *Hold     `json:"hold,omitempty"` // the need cannot be met
	Remove     []Image   `json:"remove"`         // in order
	Keep       []Image   `json:"keep"`
}

// ReclaimRequest asks to carry out a plan that was shown.
type ReclaimRequest struct {
	PlanRequest
	Digest string `json:"digest"` // the plan's; another plan is not carried out
}

// ReclaimEvent is one line of the answer to /reclaim.
type ReclaimEvent struct {
	Time       time.Time `json:"time"`
	Event      string    `json:"event"` // begun, removed, kept, failed, ended
	ID         string    `json:"id,omitempty"`
	References []string  `json:"references,omitempty"`
	Reason     string    `json:"reason,omitempty"`     // why it stays, or what failed
	FreedBytes uint64    `json:"freedBytes,omitempty"` // as measured: for the image, in "ended" for all
	Removed    int       `json:"removed"`              // so far
	Of         int       `json:"of"`
	Result     string    `json:"result,omitempty"` // in "ended": done, short, paused, capped, incomplete
}

// Usage is what takes the space of a node.
type Usage struct {
	Time        time.Time    `json:"time"`
	Looked      time.Time    `json:"looked"`
	Filesystems []Filesystem `json:"filesystems"`
	Totals      Totals       `json:"totals"`
	Images      []Image      `json:"images"`                // largest own size first
	Logs        []Directory  `json:"logs"`                  // of pods, largest first
	OpenDeleted *Open        `json:"openDeleted,omitempty"` // files that were deleted and are still open; absent: unknown
	Unknown     []string     `json:"unknown"`               // what could not be found out, and why
}

// Past is how full the filesystems were in the last day.
type Past struct {
	Time        time.Time   `json:"time"`
	Filesystems []PastUsage `json:"filesystems"` // as in [Status]
}

// PastUsage is how full one filesystem was.
type PastUsage struct {
	Names   []string `json:"names"`
	Path    string   `json:"path"`
	Samples []Sample `json:"samples"` // the oldest first, five minutes apart or more
}

// Sample is one reading.
type Sample struct {
	Time              time.Time `json:"time"`
	UsedPercent       int       `json:"usedPercent"`
	InodesUsedPercent int       `json:"inodesUsedPercent"`
}

// Directory is what the files below a directory take.
type Directory struct {
	Path string `json:"path"`
	Pod  string `json:"pod,omitempty"` // NAMESPACE/NAME
	Size
}

// Open is the space of deleted files that processes still have open.
type Open struct {
	Size
	By []OpenBy `json:"by"` // largest first
}

// OpenBy is one process.
type OpenBy struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
	Size
}

// PauseRequest pauses the agent: nothing is removed until the pause ends.
type PauseRequest struct {
	ForSeconds int64  `json:"forSeconds"` // 1 s to 30 days
	Reason     string `json:"reason,omitempty"`
}

// Pause is an active pause. It survives a restart.
type Pause struct {
	Since  time.Time `json:"since,omitzero"` // absent: a pause by the pause file
	Until  time.Time `json:"until,omitzero"` // absent: as long as the pause file exists
	By     string    `json:"by,omitempty"`   // who asked, as they named themselves
	Reason string    `json:"reason,omitempty"`

	// NotSaved is why a restart would lose the pause; in the answer to /pause alone.
	NotSaved string `json:"notSaved,omitempty"`
}

// Resume is the answer to /resume.
type Resume struct {
	WasPaused bool   `json:"wasPaused"`
	NotSaved  string `json:"notSaved,omitempty"` // why a restart would bring the pause back
}
