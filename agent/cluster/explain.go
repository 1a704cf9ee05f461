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

// Explanation is why an object is still there, as /explain shows it.
type Explanation struct {
	Object  *ObjectName   `json:"object"`
	Reason  gc.Reason     `json:"reason"`
	Due     bool          `json:"due"`               // something is about to be done about it
	Owners  []OwnerStatus `json:"owners,omitempty"`  // in the order in which they are written
	Waiting []*ObjectName `json:"waiting,omitempty"` // dependents that hold it, the first ten
	Retry   *time.Time    `json:"retry,omitempty"`   // not looked at before
	Last    string        `json:"last,omitempty"`    // how the last try went
	Root    *ObjectName   `json:"root,omitempty"`    // the topmost owner whose going has it deleted
	// Collectors are the others that are on and know of it.
	Collectors []Found `json:"collectors,omitempty"`
}

// Found is what another collector than that of owners makes of an object.
type Found struct {
	Collector string     `json:"collector"`
	Reason    gc.Reason  `json:"reason"`             // why it goes, or why it is kept
	Due       *time.Time `json:"due,omitempty"`      // when it goes, unless something changes
	Held      string     `json:"held,omitempty"`     // why nothing is asked for, whatever is due
	InFlight  bool       `json:"inFlight,omitempty"` // a request about it is on its way
	Last      string     `json:"last,omitempty"`     // how the last one went
}

func found(name gc.Collector, f gc.Finding) Found {
	x := Found{Collector: name.String(), Reason: f.Reason, InFlight: f.InFlight}
	if !f.Due.IsZero() {
		x.Due = &f.Due
	}
	if f.Asked && !f.InFlight {
		x.Last = f.Last.String()
	}
	return x
}

// OwnerStands is one owner reference and what the collector makes of it.
type OwnerStatus struct {
	ObjectName
	Judgement string `json:"judgement"`
}

func explained(x cascade.Explanation) Explanation {
	e := Explanation{Object: named(x.Object), Reason: x.Reason, Due: x.Due, Root: named(x.Root)}
	for _, o := range x.Owners {
		e.Owners = append(e.Owners, OwnerStatus{ObjectName{o.APIVersion, o.Kind, o.Namespace, o.Name, o.UID}, o.Judgement})
	}
	for _, o := range x.Waiting {
		e.Waiting = append(e.Waiting, named(o))
	}
	if !x.Retry.IsZero() {
		e.Retry, e.Last = &x.Retry, x.Last.String()
	}
	return e
}
