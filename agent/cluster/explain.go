package cluster

import (
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/gate"
	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
)

// Explanation is why an object is still there, as /explain shows it.
type Explanation struct {
	Object  *gate.ObjectName   `json:"object"`
	Reason  gc.Reason          `json:"reason"`
	Due     bool               `json:"due"`               // an action about it is due
	Owners  []OwnerStatus      `json:"owners,omitempty"`  // in the order in which they are written
	Waiting []*gate.ObjectName `json:"waiting,omitempty"` // dependents that hold it, the first ten
	Retry   *time.Time         `json:"retry,omitempty"`   // no action before this time
	Last    string             `json:"last,omitempty"`    // result of the last action
	Root    *gate.ObjectName   `json:"root,omitempty"`    // the topmost owner because of which it is deleted
	// Collectors are the other collectors that are on and know the object.
	Collectors []Found `json:"collectors,omitempty"`
}

// Found is what a collector other than that of owners has decided about an object.
type Found struct {
	Collector string     `json:"collector"`
	Reason    gc.Reason  `json:"reason"`             // why it is deleted, or why it is kept
	Due       *time.Time `json:"due,omitempty"`      // when it is deleted, unless something changes
	Held      string     `json:"held,omitempty"`     // why the collector requests nothing, whatever is due
	InFlight  bool       `json:"inFlight,omitempty"` // a request about it is in flight
	Last      string     `json:"last,omitempty"`     // result of the last request
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

// OwnerStatus is one owner reference and how the collector judges it.
type OwnerStatus struct {
	gate.ObjectName
	Judgement string `json:"judgement"`
}

func explained(x cascade.Explanation) Explanation {
	e := Explanation{Object: gate.Named(x.Object), Reason: x.Reason, Due: x.Due, Root: gate.Named(x.Root)}
	for _, o := range x.Owners {
		e.Owners = append(e.Owners, OwnerStatus{gate.ObjectName{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID}, o.Judgement})
	}
	for _, o := range x.Waiting {
		e.Waiting = append(e.Waiting, gate.Named(o))
	}
	if !x.Retry.IsZero() {
		e.Retry, e.Last = &x.Retry, x.Last.String()
	}
	return e
}
