package image

import (
	"slices"
	"strings"
	"time"
)

// Explanation is all that Decide says about one image, and how it came to it.
type Explanation struct {
	Decision      // the verdict, as Decide's plan has it
	Goes     bool // whether it is among Plan.Remove

	Rules []Rule // in the order in which they are asked

	// Place is its place among the Of images that may go, in the order in which they would,
	// from 1; 0 where it may not go.
	Place, Of int

	InTurn Size // what goes with it when all images before it in the order are gone
}

// Rule is what one rule says about an image.
type Rule struct {
	Reason Reason // what the verdict is if this is the first rule that holds
	State  State
	Text   string
	// Changes is when this answer becomes another by itself; zero if only an event can
	// change it, or that time is not known.
	Changes time.Time
}

// State is how a rule stands for an image.
type State uint8

// What a rule can say.
const (
	NotReached  State = iota // an earlier rule has decided
	DoesNotHold              // it was asked and does not apply
	Holds                    // it applies
)

func (s State) String() string {
	return [...]string{"not reached", "does not hold", "holds"}[s]
}

// diskRules are asked of an image that nothing protects, until one holds.
var diskRules = []Reason{RemovedAge, KeptNotNeeded, KeptHold, KeptFreesNothing, KeptFutile, RemovedThreshold}

// Why explains what Decide says about one image; it is false if the snapshot does not
// have it. All protections are asked, also after one that holds: when a container is gone,
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

// verdict finds what the plan says of an image that the snapshot has.
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

// ends is when a protection that holds ends by itself.
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
