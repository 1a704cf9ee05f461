package preview

import (
	"fmt"
	"strings"

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

// NotSeen is a type, or a version of a group, that could not be read.
type NotSeen struct {
	Type string `json:"type"`
	Why  string `json:"why"`
}

// Answer is a preview, with what is missing in it.
type Answer struct {
	preview.Preview
	// Complete means that everything was read: NotSeen is empty.
	Complete bool      `json:"complete"`
	NotSeen  []NotSeen `json:"notSeen,omitempty"`
	Objects  int       `json:"objects"` // how many were read
	Types    int       `json:"types"`   // how many were listed
	// Excluded is what the controller never acts on; nil: not known.
	Excluded *Excluded `json:"excluded,omitempty"`
}

// Excluded is what a controller's configuration excludes.
type Excluded struct {
	Types      []string `json:"types"`
	Namespaces []string `json:"namespaces"`
}

// ParsePolicy reads a propagation policy in any letter case; "" is background.
func ParsePolicy(s string) (gc.Policy, error) {
	for _, p := range []gc.Policy{gc.Background, gc.Foreground, gc.Orphan} {
		if s == "" || strings.EqualFold(s, string(p)) {
			return p, nil
		}
	}
	return "", fmt.Errorf("policy %.20q is none of background, foreground and orphan", s)
}
