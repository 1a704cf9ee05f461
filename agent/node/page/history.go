package page

import "time"

// History is a part of what the agent removed and refused, newest first.
type History struct {
	Entries []HistoryEntry `json:"entries"`
	Next    string         `json:"next,omitempty"` // for ?before=, to read on; absent: there is no more
}

// HistoryEntry is one removal, or one refusal: something that stays although its turn had come, or
// what keeps the agent from removing anything. Sizes are in bytes and inodes. Texts are bounded; a
// longer one is cut and ends with "…".
type HistoryEntry struct {
	Time  time.Time  `json:"time"`            // when it began, by ebb's clock
	Wall  time.Time  `json:"wall"`            // the same moment by the wall clock, as it stood then
	Ended *time.Time `json:"ended,omitempty"` // when the outcome was known, by ebb's clock; absent: not yet

	Kind    string   `json:"kind"`            // one of the kinds below
	ID      string   `json:"id,omitempty"`    // digest of an image; ID of a container or sandbox; name of logs
	Names   []string `json:"names,omitempty"` // the first 8 references of an image; NAMESPACE/POD[/CONTAINER]; path of a filesystem
	Outcome string   `json:"outcome"`         // one of the outcomes below

	Rule   string `json:"rule,omitempty"`   // of the policy, by which it was to go: threshold, age, pod_gone, …
	Reason string `json:"reason"`           // of what went, the rule; of what stays, why, in words
	Detail string `json:"detail,omitempty"` // the policy's reason, in words; of a hold, what holds the space
	Error  string `json:"error,omitempty"`  // why it failed, or why nobody knows what it freed

	LastUsed *time.Time `json:"lastUsed,omitempty"` // by ebb's clock; absent: no use was seen
	UsedBy   string     `json:"usedBy,omitempty"`   // the latest user that a look found: pod NAMESPACE/NAME, or container NAMESPACE/ID

	ComputedBytes  uint64  `json:"computedBytes,omitempty"` // what it was computed to free; of a hold, what is needed
	ComputedInodes uint64  `json:"computedInodes,omitempty"`
	FreedBytes     *uint64 `json:"freedBytes,omitempty"` // as measured, and no more than computed; absent: not measured
	FreedInodes    *uint64 `json:"freedInodes,omitempty"`
	MeasuredWith   int     `json:"measuredWith,omitempty"` // others that were measured together with it: what they freed is shared out as computed

	By string `json:"by,omitempty"` // who asked; absent: nobody, the agent decided
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
	OutcomeBegun   = "begun"    // under way, or nobody knows yet what became of it
	OutcomeRemoved = "removed"  // it is gone
	OutcomePutBack = "put_back" // its removal was begun, and it stays
	OutcomeFailed  = "failed"   // its removal failed; it is tried again later
	OutcomeRefused = "refused"  // it stays, or nothing goes: Reason says why
	OutcomeEnded   = "ended"    // a hold is over

	OutcomeWould  = "would_remove"   // in mode observe: the agent would have removed it
	OutcomeOthers = "others_removed" // in mode observe: it is gone without the agent
)
