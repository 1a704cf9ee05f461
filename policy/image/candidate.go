package image

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// candidate is one image with the part of its verdict that does not depend on the disk.
type candidate struct {
	Image

	twice  bool   // listed more than once: removing one would remove all, so none may go
	keep   Reason // why it is kept regardless of the disk; "" if it may go
	detail string
	unused bool      // at most its youth, unknown pods or a failed removal keep it
	aged   bool      // may go, and is unused for MaximumAge
	oldAt  time.Time // when it is old enough to go; zero if no minimum applies, or unknown
	agedAt time.Time // when MaximumAge is reached; zero if it is off, or unknown
}

// classify returns one judged candidate for each image ID, sorted by ID.
func classify(s Snapshot, now time.Time) []*candidate {
	candidates := distinct(s.Images)
	for _, c := range candidates {
		c.judge(&s, now)
	}
	return candidates
}

// distinct returns one candidate for each image ID, sorted by ID, and merges the roots of
// images with the same ID. It does not change images.
func distinct(images []Image) []*candidate {
	candidates := make([]*candidate, 0, len(images))
	backing := make([]candidate, len(images)) // one allocation for all
	for i, img := range images {
		backing[i].Image = img
		candidates = append(candidates, &backing[i])
	}
	slices.SortFunc(candidates, func(a, b *candidate) int { return strings.Compare(a.ID, b.ID) })

	unique := candidates[:0]
	for _, c := range candidates {
		if n := len(unique); n > 0 && unique[n-1].ID == c.ID {
			twin := unique[n-1]
			twin.Roots, twin.twice = slices.Concat(twin.Roots, c.Roots), true
			continue
		}
		unique = append(unique, c)
	}
	return unique
}

// judge sets everything that does not depend on the disk.
func (c *candidate) judge(s *Snapshot, now time.Time) {
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

// reason returns the first protection that applies; "" if none does.
func (c *candidate) reason(s *Snapshot, now time.Time) (Reason, string) {
	for _, p := range protections {
		if why := p.why(c, s, now); why != "" {
			return p.reason, why
		}
	}
	return "", ""
}

// lastUsed returns the last use. If that is unknown, the image counts as used when it was
// first seen. Zero if that is unknown too.
func (c *candidate) lastUsed() time.Time { return firstKnown(c.LastUsed, c.Observed) }

func (c *candidate) arrived() time.Time { return firstKnown(c.Arrived, c.Observed) }

// compareUse orders images by last use, arrival, first sight and ID: the image to remove
// first comes first. Times in the future are compared as they are, so that the order does not
// change as time passes.
func compareUse(a, b *candidate) int {
	if c := compareTimes(a.lastUsed(), b.lastUsed()); c != 0 {
		return c // the usual case: do not read the rest
	}
	return cmp.Or(
		compareTimes(a.arrived(), b.arrived()),
		compareTimes(a.Observed, b.Observed),
		strings.Compare(a.ID, b.ID))
}

// compareTimes orders times. An unknown (zero) time comes last, because it counts as now.
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

// age returns how long ago t was; 0 for an unknown time or one in the future.
func age(t, now time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(now.Sub(t), 0)
}

// after returns t plus d; zero if t is unknown.
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

// listed returns the first name in order, and how many others there are.
func listed(names []string) string {
	first := slices.Min(names)
	if len(names) == 1 {
		return first
	}
	return fmt.Sprintf("%s and %d more", first, len(names)-1)
}
