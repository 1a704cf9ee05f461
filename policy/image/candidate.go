package image

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// candidate is one image with what the policy says about it before the disk
// is asked.
type candidate struct {
	Image

	keep   Reason // why it stays whatever the disk says; "" if it may go
	detail string
	unused bool      // nothing but its youth, unknown pods or a failed removal may keep it
	aged   bool      // may go, and is unused for MaximumAge
	oldAt  time.Time // when it is old enough to go; zero if there is no such age, or never known
	agedAt time.Time // when MaximumAge is reached; zero if never known
}

// classify returns the images by ID, one candidate for each ID. Images is not
// changed.
func classify(s Snapshot, now time.Time) []*candidate {
	candidates := make([]*candidate, 0, len(s.Images))
	backing := make([]candidate, len(s.Images)) // one allocation for all
	for i, img := range s.Images {
		backing[i].Image = img
		candidates = append(candidates, &backing[i])
	}
	slices.SortFunc(candidates, func(a, b *candidate) int { return strings.Compare(a.ID, b.ID) })

	unique := candidates[:0]
	for _, c := range candidates {
		if n := len(unique); n > 0 && unique[n-1].ID == c.ID {
			// Removing one would remove both: neither may go.
			twin := unique[n-1]
			twin.Roots = slices.Concat(twin.Roots, c.Roots)
			twin.keep, twin.detail = KeptBlocked, "listed more than once"
			twin.unused, twin.aged = false, false
			continue
		}
		c.judge(s, now)
		unique = append(unique, c)
	}
	return unique
}

// judge fills in all that does not depend on the disk.
func (c *candidate) judge(s Snapshot, now time.Time) {
	c.oldAt = s.oldAt(c.arrived())
	if s.Policy.MaximumAge > 0 && !c.lastUsed().IsZero() && !c.Observed.IsZero() {
		c.agedAt = latest(
			after(c.lastUsed(), s.Policy.MaximumAge),
			after(c.Observed, s.Policy.MaximumAge),
			c.oldAt)
	}
	c.keep, c.detail = c.reason(s, now)
	c.unused = c.keep == "" || c.keep == KeptPodsUnknown || c.keep == KeptYoung || c.keep == KeptFailed
	c.aged = c.keep == "" && s.Policy.MaximumAge > 0 &&
		age(c.lastUsed(), now) >= s.Policy.MaximumAge &&
		age(c.Observed, now) >= s.Policy.MaximumAge
}

// reason gives the first of the reasons, in the order of their constants, that
// do not depend on the disk.
func (c *candidate) reason(s Snapshot, now time.Time) (Reason, string) {
	switch {
	case c.ID == "":
		return KeptBlocked, "has no ID"
	case !s.Graph.inside(c.Roots):
		return KeptBlocked, "has a root outside the graph"
	case len(c.UsedBy) > 0:
		return KeptInUse, "used by " + listed(c.UsedBy)
	case len(c.Wanted) > 0:
		return KeptWanted, "wanted by " + listed(c.Wanted)
	case c.Pinned:
		return KeptPinned, "pinned by the runtime"
	case c.Sandbox:
		return KeptSandbox, "the runtime's sandbox image"
	case c.Keep != "":
		return KeptByRule, "kept by the rule " + c.Keep
	}
	if why := s.Pods.MayWant(c.arrived(), now); why != "" {
		return KeptPodsUnknown, why
	}
	if a := age(c.arrived(), now); a < s.Policy.MinimumAge {
		return KeptYoung, fmt.Sprintf("arrived %v ago, minimum age %v", a.Round(time.Second), s.Policy.MinimumAge)
	}
	if now.Before(c.RetryAt) {
		return KeptFailed, fmt.Sprintf("its removal failed, next try in %v", c.RetryAt.Sub(now).Round(time.Second))
	}
	return "", ""
}

// lastUsed is the last use; where that is not known the image counts as used
// when it was first seen. Zero if that is not known either.
func (c *candidate) lastUsed() time.Time { return firstKnown(c.LastUsed, c.Observed) }

func (c *candidate) arrived() time.Time { return firstKnown(c.Arrived, c.Observed) }

// compareUse orders by last use, then first seen, then ID: the image to go
// first comes first. Times are compared as they are, also those in the future,
// so that the order does not change as time passes.
func compareUse(a, b *candidate) int {
	return cmp.Or(
		compareTimes(a.lastUsed(), b.lastUsed()),
		compareTimes(a.arrived(), b.arrived()),
		compareTimes(a.Observed, b.Observed),
		strings.Compare(a.ID, b.ID))
}

// compareTimes puts what is not known last: it counts as now.
func compareTimes(a, b time.Time) int {
	switch {
	case a.IsZero() && b.IsZero():
		return 0
	case a.IsZero():
		return 1
	case b.IsZero():
		return -1
	}
	return a.Compare(b)
}

// age is how long ago t was: nothing for a time that is not known or in the
// future.
func age(t, now time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(now.Sub(t), 0)
}

// after is t plus d; a time that is not known stays so.
func after(t time.Time, d time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(d)
}

func firstKnown(a, b time.Time) time.Time {
	if a.IsZero() {
		return b
	}
	return a
}

func latest(times ...time.Time) time.Time {
	return slices.MaxFunc(times, time.Time.Compare)
}

// listed names the first (in order) and counts the others.
func listed(names []string) string {
	first := slices.Min(names)
	if len(names) == 1 {
		return first
	}
	return fmt.Sprintf("%s and %d more", first, len(names)-1)
}
