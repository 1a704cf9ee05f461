package preview

import (
	"time"

	"github.com/ebb-agent/ebb/policy/cascade/preview"
	"github.com/ebb-agent/ebb/policy/gc"
)

// Query is what somebody wants to know.
type Query struct {
	Resource  string // as kubectl takes it
	Name      string
	Namespace string // ignored for a type that has none
	Policy    gc.Policy
	Limits    preview.Limits
}

// The sources of answers.
const (
	FromAPIServer  = "api-server"
	FromController = "controller"
)

// NotSeen is a type, or a version of a group, that could not be read.
type NotSeen struct {
	Type string `json:"type"`
	Why  string `json:"why"`
}

// Answer is a preview, and what it lacks.
type Answer struct {
	preview.Preview
	Source string `json:"source"`
	// Complete: every type was read.
	Complete bool      `json:"complete"`
	NotSeen  []NotSeen `json:"notSeen,omitempty"`
	Objects  int       `json:"objects"` // that were read
	Types    int       `json:"types"`   // that they are of
	// Excluded is what the controller never acts on; nil: not known.
	Excluded   *Excluded   `json:"excluded,omitempty"`
	Controller *Controller `json:"controller,omitempty"` // that answered
}

// Excluded is what a controller's configuration excludes.
type Excluded struct {
	Types      []string `json:"types"`
	Namespaces []string `json:"namespaces"`
}

// Controller is how the controller stands that answered.
type Controller struct {
	Mode string `json:"mode"`
	// Halted says why it sends nothing at present; empty if it does not.
	Halted string `json:"halted,omitempty"`
	// BreakerAllows is how many deletions its circuit breaker lets through now; nil: any number.
	BreakerAllows *int `json:"breakerAllows,omitempty"`
	// Envelope is what it deletes because of one owner; nil: as much as there is.
	Envelope *Envelope `json:"envelope,omitempty"`
	// OrphaningHeld is why an orphaned owner would wait; empty if it would not.
	OrphaningHeld string `json:"orphaningHeld,omitempty"`
	// Watched are its types, and how old what it knows of them may be.
	Watched []Watched `json:"watched"`
}

// Envelope bounds one cascade: so many deletions at once, and so many a minute after.
type Envelope struct {
	Burst     int `json:"burst"`
	PerMinute int `json:"perMinute"`
}

// Watched is how a type stands.
type Watched struct {
	Type       string    `json:"type"`
	APIVersion string    `json:"apiVersion"`
	State      string    `json:"state"` // synced, listing or unreadable
	Since      time.Time `json:"since"`
	Heard      time.Time `json:"heard"` // of the API server, on this type
	Objects    int       `json:"objects"`
	Excluded   bool      `json:"excluded,omitempty"`
}
