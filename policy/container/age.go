package container

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// began is what the age of a container counts from; zero where that is not
// known. A container that ended before it began (a clock was set back in
// between) counts from the later of the two.
//
// After a clock was set back, containers from before the change are not ripe until it has
// caught up, as with the kubelet. With MinAge 0 they are; there the kubelet waits. The
// caller finds out an end that is not known (AgeFrom termination); until then the
// container stays.
func (c Container) began(from AgeFrom) time.Time {
	if from == FromCreation || c.State != StateExited {
		return c.Created
	}
	if c.Finished.IsZero() {
		return time.Time{}
	}
	return latest(c.Created, c.Finished)
}

// compareAge orders dead containers, the oldest first. Times are compared as
// they are, also those in the future, so that the order does not change as time
// passes; equal times by the number of restarts, then by ID.
//
// Which of two of the same age is the older one the kubelet leaves to chance.
func compareAge(a, b *dead) int {
	return cmp.Or(
		compareTimes(a.stamp, b.stamp),
		compareTimes(a.Created, b.Created),
		cmp.Compare(a.Attempt, b.Attempt),
		strings.Compare(a.ID, b.ID))
}

// compareSandboxes does the same for sandboxes, whose age always counts from
// their creation: the CRI does not tell when a sandbox ended.
func compareSandboxes(a, b *sandbox) int {
	return cmp.Or(
		compareTimes(a.Created, b.Created),
		cmp.Compare(a.Attempt, b.Attempt),
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

// reaches says whether something that counts from t is as old as d, and if
// not, when it will be: zero if that cannot be known.
func reaches(t time.Time, d time.Duration, now time.Time) (yes bool, at time.Time) {
	switch {
	case age(t, now) >= d:
		return true, time.Time{}
	case t.IsZero():
		return false, time.Time{}
	}
	return false, t.Add(d)
}

func latest(times ...time.Time) time.Time {
	return slices.MaxFunc(times, time.Time.Compare)
}
