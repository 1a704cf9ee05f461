package removal

import (
	"slices"
	"time"
)

// CapWindow is what the hourly caps count over.
const CapWindow = time.Hour

// Within returns the times that the caps count.
func Within(times []time.Time, now time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(times), func(t time.Time) bool { return now.Sub(t) >= CapWindow })
}

// Budget is how many removals a cap still allows, and when it will allow more. Recent are those within the
// window, the oldest first.
func Budget(recent []time.Time, hourly int, now time.Time) (free int, at time.Time) {
	if free = hourly - len(recent); free > 0 {
		return free, now
	}
	return 0, recent[len(recent)-hourly].Add(CapWindow)
}

// ByAge is how many of so many images may go in an hour while nothing but their age asks for it.
func ByAge(images int, recent []time.Time, percent int) int {
	return max(1, (images+len(recent))*percent/100)
}
