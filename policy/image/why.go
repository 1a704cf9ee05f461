package image

import (
	"slices"
	"strings"
	"time"
)

// Explanation is Decide's verdict on one image, and how it was reached.
type Explanation struct {
	Decision      // the verdict, as Decide's plan has it
	Goes     bool // whether it is among Plan.Remove

	Rules []Rule // in the order of evaluation

	// Place is its position, from 1, among the Of images that may go, in order of removal; 0
	// if it may not go.
	Place, Of int

	InTurn Size // what it frees when all images before it in the order are gone
}

// Rule is the result of one rule for an image.
type Rule struct {
	Reason Reason // the verdict if this is the first rule that applies
	State  State
	Text   string
	// Changes is when this result changes by itself; zero if only an event can change it, or
	// the time is unknown.
	Changes time.Time
}

// State is whether a rule applies to an image.
type State uint8

// Values of State.
const (
	NotReached  State = iota // an earlier rule has decided
	DoesNotHold              // it does not apply
	Holds                    // it applies
)

func (s State) String() string {
	return [...]string{"not reached", "does not hold", "holds"}[s]
}

// diskRules are evaluated for an image without a protection, until one applies.
var diskRules = []Reason{RemovedAge, KeptNotNeeded, KeptHold, KeptFreesNothing, KeptFutile, RemovedThreshold}

// Why explains Decide's verdict on one image; it returns false if the snapshot does not have
// the image. It evaluates all protections, even after one applies: when a container is gone,
// a pin still keeps its image.
func Why(s Snapshot, id string, now time.Time) (Explanation, bool) {
	d := newDecision(s, now)
	i, found := slices.BinarySearchFunc(d.images, id, func(c *candidate, id string) int { return strings.Compare(c.ID, id) })
	if !found {
		return Explanation{}, false
	}
	c, plan := d.images[i], d.decide()
	e := Explanation{Of: len(d.order)}
	e.Decision, e.Goes = plan.verdict(id)
	if at := slices.Index(d.order, c); at >= 0 {
		e.Place, e.InTurn = at+1, d.frees[at].size()
	}
	e.Rules = d.rules(c, e)
	return e, true
}

// verdict returns the plan's decision on an image of the snapshot, and whether the image is
// removed.
func (p Plan) verdict(id string) (verdict Decision, goes bool) {
	if i := slices.IndexFunc(p.Remove, func(d Decision) bool { return d.ImageID == id }); i >= 0 {
		return p.Remove[i], true
	}
	i, _ := slices.BinarySearchFunc(p.Keep, id, func(d Decision, id string) int { return strings.Compare(d.ImageID, id) })
	return p.Keep[i], false
}

func (d *decision) rules(c *candidate, e Explanation) []Rule {
	rules := make([]Rule, 0, len(protections)+len(diskRules))
	decided := false
	for _, p := range protections {
		r := Rule{Reason: p.reason, State: Holds, Text: p.why(c, &d.Snapshot, d.now)}
		if p.reason == KeptBlocked && d.Blocked != "" {
			r.Text = d.Blocked
		}
		if r.Text == "" {
			r.State, r.Text = DoesNotHold, d.unprotected(p.reason, c)
		} else {
			decided, r.Changes = true, d.ends(p.reason, c)
		}
		rules = append(rules, r)
	}
	for _, reason := range diskRules {
		r := Rule{Reason: reason, Text: "an earlier rule decides"}
		switch {
		case decided:
		case reason == e.Reason:
			decided, r.State, r.Text = true, Holds, e.Detail
		default:
			r.State, r.Text = DoesNotHold, d.passed(reason, c, e)
			if reason == RemovedAge {
				r.Changes = c.agedAt
			}
		}
		rules = append(rules, r)
	}
	return rules
}

// ends returns when a protection that applies ends by itself; zero if only an event ends it.
func (d *decision) ends(reason Reason, c *candidate) time.Time {
	switch {
	case reason == KeptPodsUnknown && d.Pods.Answered.IsZero():
		return after(c.arrived(), UnansweredAge)
	case reason == KeptYoung:
		return after(c.arrived(), d.Policy.MinimumAge)
	case reason == KeptFailed:
		return c.RetryAt
	}
	return time.Time{}
}
