package container

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// began returns the time from which a container's age counts; zero if unknown. If the
// container ended before it was created (the clock was set back in between), the later of the
// two times counts.
//
// After the clock was set back, containers from before the change are not ripe until it has
// caught up, as with the kubelet. With MinAge 0 they are ripe at once, while the kubelet
// waits. With AgeFrom termination, the caller looks up an unknown end; until it has, the
// container stays if MinAge is above 0.
func (c Container) began(from AgeFrom) time.Time {
	if from == FromCreation || c.State != StateExited {
		return c.Created
	}
	if c.Finished.IsZero() {
		return time.Time{}
	}
	return latest(c.Created, c.Finished)
}

// compareAge orders dead containers, oldest first. Times in the future are compared as they
// are, so that the order does not change as time passes. Equal ages are ordered by creation,
// number of restarts and ID; the kubelet leaves their order to chance.
func compareAge(a, b *dead) int {
	return cmp.Or(
		compareTimes(a.stamp, b.stamp),
		compareTimes(a.Created, b.Created),
		cmp.Compare(a.Attempt, b.Attempt),
		strings.Compare(a.ID, b.ID))
}

// compareSandboxes orders sandboxes like compareAge. Their age always counts from their
// creation, because the CRI does not report when a sandbox ended.
func compareSandboxes(a, b *sandbox) int {
	return cmp.Or(
		compareTimes(a.Created, b.Created),
		cmp.Compare(a.Attempt, b.Attempt),
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

// reaches reports whether something that counts from t is at least d old. If it is not, at is
// when it will be; zero if t is unknown.
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
