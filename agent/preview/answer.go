package preview

import (
	"time"

	"github.com/ebb-agent/ebb/policy/cascade/preview"
	"github.com/ebb-agent/ebb/policy/gc"
)

// Query asks what a deletion would do.
type Query struct {
	Resource  string // as kubectl takes it
	Name      string
	Namespace string // ignored for a cluster-scoped type
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

// Answer is a preview, with what is missing in it.
type Answer struct {
	preview.Preview
	Source string `json:"source"`
	// Complete means that everything was read: NotSeen is empty.
	Complete bool      `json:"complete"`
	NotSeen  []NotSeen `json:"notSeen,omitempty"`
	Objects  int       `json:"objects"` // how many were read
	Types    int       `json:"types"`   // how many were listed
	// Excluded is what the controller never acts on; nil: not known.
	Excluded   *Excluded   `json:"excluded,omitempty"`
	Controller *Controller `json:"controller,omitempty"` // that answered
}

// Excluded is what a controller's configuration excludes.
type Excluded struct {
	Types      []string `json:"types"`
	Namespaces []string `json:"namespaces"`
}

// Controller is the state of the controller that answered.
type Controller struct {
	Mode string `json:"mode"`
	// Halted says why the controller sends no writes at present; "" if it does.
	Halted string `json:"halted,omitempty"`
	// BreakerAllows is how many deletions the circuit breaker allows now; nil: any number.
	BreakerAllows *int `json:"breakerAllows,omitempty"`
	// Envelope bounds what the controller deletes because of one owner; nil: no bound.
	Envelope *Envelope `json:"envelope,omitempty"`
	// OrphaningHeld says why an orphaned owner would wait; "" if it would not.
	OrphaningHeld string `json:"orphaningHeld,omitempty"`
	// Watched are the types that the controller watches, and how old its data about them may be.
	Watched []Watched `json:"watched"`
}

// Envelope bounds one cascade: so many deletions at once, and so many a minute after.
type Envelope struct {
	Burst     int `json:"burst"`
	PerMinute int `json:"perMinute"`
}

// Watched is the state of a type.
type Watched struct {
	Type       string    `json:"type"`
	APIVersion string    `json:"apiVersion"`
	State      string    `json:"state"` // synced, listing or unreadable
	Since      time.Time `json:"since"`
	Heard      time.Time `json:"heard"` // when the API server last sent something for this type
	Objects    int       `json:"objects"`
	Excluded   bool      `json:"excluded,omitempty"`
}
