package gc

import "strings"

// The two finalizers that the API server sets on an object that is deleted with a
// propagation policy, and that a collector removes (metav1.FinalizerOrphanDependents,
// metav1.FinalizerDeleteDependents).
const (
	OrphanFinalizer     = "orphan"
	ForegroundFinalizer = "foregroundDeletion"
)

// Pods are the objects that occupy Nodes and use volumes.
var Pods = Type{APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespaced: true}

// Type is a kind of object in the version in which it is watched.
type Type struct {
	APIVersion string // "apps/v1", "v1"
	Kind       string // or policy/cascade's Second of it
	Resource   string // "deployments"
	Namespaced bool
	// Aggregated types are served by another API server, whose storage may ignore
	// preconditions: an object is read just before it is deleted. They are in
	// quarantine; see policy/cascade.
	Aggregated bool
	// Unwatched versions and types are not listed: references to them are verified
	// by live reads.
	Unwatched bool
	// Excluded types are never acted on; as owners they count like any other.
	Excluded bool
}

// Coordinates name one object. Two objects may have the same name one after the other, and
// references may give one UID two names. So only all fields together identify an object.
type Coordinates struct {
	APIVersion string
	Kind       string
	Resource   string // set in actions, ignored in inputs
	Namespace  string
	Name       string
	UID        string
}

// Reference is an owner reference as it is written in an object.
type Reference struct {
	APIVersion string
	Kind       string
	Name       string
	UID        string
	Block      bool // blockOwnerDeletion is true
}

// Object is the metadata of an object that the collectors use.
type Object struct {
	APIVersion      string
	Kind            string
	Namespace       string
	Name            string
	UID             string
	ResourceVersion string
	Owners          []Reference
	Finalizers      []string
	Terminating     bool // deletionTimestamp is set
}

// Key returns the object's name, or namespace/name.
func (o *Object) Key() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// GroupOf returns the API group of an apiVersion; empty for the core group, "v1".
func GroupOf(apiVersion string) string {
	if group, _, found := strings.Cut(apiVersion, "/"); found {
		return group
	}
	return ""
}
