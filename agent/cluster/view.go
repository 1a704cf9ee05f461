package cluster

import (
	"time"

	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
)

// ObjectName names an object in answers.
type ObjectName struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

func named(o gc.Coordinates) *ObjectName {
	if o.Name == "" {
		return nil
	}
	return &ObjectName{o.APIVersion, o.Kind, o.Namespace, o.Name, o.UID}
}

// Explanation is why an object is still there, as /explain tells it.
type Explanation struct {
	Object  *ObjectName   `json:"object"`
	Reason  string        `json:"reason"`
	Due     bool          `json:"due"`               // something is about to be done about it
	Owners  []OwnerStands `json:"owners,omitempty"`  // in the order in which they are written
	Waiting []*ObjectName `json:"waiting,omitempty"` // dependents that hold it, the first ten
	Retry   *time.Time    `json:"retry,omitempty"`   // not looked at before
	Last    string        `json:"last,omitempty"`    // how the last try went
	Root    *ObjectName   `json:"root,omitempty"`    // the topmost owner whose going has it deleted
}

// OwnerStands is one owner reference and what the collector makes of it.
type OwnerStands struct {
	ObjectName
	Judgement string `json:"judgement"`
}

func explained(x cascade.Explanation) Explanation {
	e := Explanation{Object: named(x.Object), Reason: string(x.Reason), Due: x.Due, Root: named(x.Root)}
	for _, o := range x.Owners {
		e.Owners = append(e.Owners, OwnerStands{ObjectName{o.APIVersion, o.Kind, o.Namespace, o.Name, o.UID}, o.Judgement})
	}
	for _, o := range x.Waiting {
		e.Waiting = append(e.Waiting, named(o))
	}
	if !x.Retry.IsZero() {
		e.Retry, e.Last = &x.Retry, x.Last.String()
	}
	return e
}
