package page

import "time"

// History is a part of what the agent removed and refused, newest first.
type History struct {
	Time    time.Time      `json:"time"` // by ebb's clock, as the times of the entries
	Entries []HistoryEntry `json:"entries"`
	Next    string         `json:"next,omitempty"` // for ?before=, to read on; absent: there is no more
}

// HistoryEntry is one removal, or one refusal: a thing that stays although its turn had come, or a
// reason why the agent removes nothing. Sizes are in bytes and inodes. Texts are bounded; a longer
// one is cut and ends with "…".
type HistoryEntry struct {
	Time  time.Time  `json:"time"`            // when it began, by ebb's clock
	Wall  time.Time  `json:"wall"`            // the same moment, by the wall clock of that time
	Ended *time.Time `json:"ended,omitempty"` // when the outcome was known, by ebb's clock; absent: not yet

	Kind    string   `json:"kind"`            // one of the kinds below
	ID      string   `json:"id,omitempty"`    // digest of an image; ID of a container or sandbox; name of logs
	Names   []string `json:"names,omitempty"` // the first 8 references of an image; NAMESPACE/POD[/CONTAINER]; path of a filesystem
	Outcome string   `json:"outcome"`         // one of the outcomes below

	Rule   string `json:"rule,omitempty"`   // of the policy, for its removal: threshold, age, pod_gone, …
	Reason string `json:"reason"`           // if it was removed, the rule; if it stays, why, in words
	Detail string `json:"detail,omitempty"` // the policy's reason, in words; for a hold, what holds the space
	Error  string `json:"error,omitempty"`  // why it failed, or why the freed space is unknown

	LastUsed *time.Time `json:"lastUsed,omitempty"` // by ebb's clock; absent: no use was seen
	Arrived  *time.Time `json:"arrived,omitempty"`  // when the image was pulled or imported last, by ebb's clock
	UsedBy   string     `json:"usedBy,omitempty"`   // the latest user that a look found: pod NAMESPACE/NAME, or container NAMESPACE/ID

	ComputedBytes  uint64  `json:"computedBytes,omitempty"` // what it was computed to free; for a hold, what is needed
	ComputedInodes uint64  `json:"computedInodes,omitempty"`
	FreedBytes     *uint64 `json:"freedBytes,omitempty"` // as measured, and no more than computed; absent: not measured
	FreedInodes    *uint64 `json:"freedInodes,omitempty"`
	MeasuredWith   int     `json:"measuredWith,omitempty"` // others that were measured together with it: the freed space is split as computed

	By string `json:"by,omitempty"` // who asked; absent: the agent decided
}

// Kinds of entries.
const (
	KindImage        = "image"
	KindContainer    = "container"
	KindSandbox      = "sandbox"
	KindLogDirectory = "log_directory"
	KindLogLink      = "log_link"
	KindHold         = "hold" // of a filesystem: its low threshold cannot be reached
	KindCap          = "cap"  // maxRemovalsPerHour
)

// Outcomes of entries.
const (
	OutcomeBegun   = "begun"    // under way, or the outcome is not known yet
	OutcomeRemoved = "removed"  // it is gone
	OutcomePutBack = "put_back" // its removal was begun, and it stays
	OutcomeFailed  = "failed"   // its removal failed; it is tried again later
	OutcomeRefused = "refused"  // it stays, or nothing is removed: see Reason
	OutcomeEnded   = "ended"    // a hold is over

	OutcomeWould  = "would_remove"   // in mode observe: the agent would have removed it
	OutcomeOthers = "others_removed" // in mode observe: it was removed without the agent
)
